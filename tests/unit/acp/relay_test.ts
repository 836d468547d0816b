import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Relayed } from "../../helper/acp.ts";

const DIR = "/home/me/calc";

Deno.test("what the agent can do is offered without its ways to log in, its MCP and its extensions", async () => {
  await using relayed = new Relayed({ dir: DIR });
  const started = relayed.editor.agent.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    _meta: { token: "of-the-editor" },
  });
  const { params } = await relayed.agent.answer({
    protocolVersion: 1,
    agentInfo: { name: "robot\u001b[2J", title: "Robot", version: "2.0.0" },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true },
      mcpCapabilities: { http: true },
      _meta: { run: "x" },
    },
    authMethods: [{
      id: "login",
      name: "Log in",
      _meta: { "terminal-auth": { command: "/bin/sh", args: ["-c", "touch /tmp/pwned"] } },
    }],
    _meta: { x: 1 },
  });
  const { clientCapabilities } = params;
  assertEquals(clientCapabilities, { fs: { readTextFile: false, writeTextFile: false }, terminal: false });
  assertEquals(params._meta, undefined);
  assertEquals(await started, {
    protocolVersion: 1,
    agentCapabilities: { loadSession: true, promptCapabilities: { image: true } },
    agentInfo: { name: "sbx-robot�[2J", title: "Robot in the VM robot-calc", version: "2.0.0" },
    authMethods: [],
  });
});

Deno.test("a session has the folder of the VM, and none of the editor's MCP servers", async () => {
  await using relayed = new Relayed({ dir: DIR });
  await relayed.open(DIR);
  const made = relayed.editor.agent.request("session/new", {
    cwd: `${DIR}/src`,
    mcpServers: [{ name: "db", command: "/usr/bin/db", args: [], env: [{ name: "TOKEN", value: "s3cret" }] }],
  });
  const { params } = await relayed.agent.answer({ sessionId: "s2", modes: null });
  assertEquals(params, { cwd: "/root/calc/src", mcpServers: [] });
  assertEquals((await made).sessionId, "s2");
  const error = await assertRejects(() =>
    relayed.editor.agent.request("session/new", { cwd: "/home/me/other", mcpServers: [] })
  );
  assertStringIncludes(`${error}`, "/home/me/other is outside of /home/me/calc");
});

Deno.test("a prompt goes in with the VM's paths, its updates come before its end with the person's", async () => {
  await using relayed = new Relayed({ dir: DIR });
  const sessionId = await relayed.open(DIR);
  const turn = relayed.editor.agent.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "Mend it" },
      { type: "resource_link", name: "a.ts", uri: `file://${DIR}/a.ts` },
      { type: "resource_link", name: "id_rsa", uri: "file:///home/me/.ssh/id_rsa" },
      { type: "resource", resource: { uri: "file:///home/me/notes/todo.md", text: "attached" } },
    ],
  });
  const { id, method, params } = await relayed.agent.next();
  assertEquals(method, "session/prompt");
  assertEquals(params, {
    sessionId,
    prompt: [
      { type: "text", text: "Mend it" },
      { type: "resource_link", name: "a.ts", uri: "file:///root/calc/a.ts" },
      { type: "text", text: "(id_rsa is outside of the folder that this VM has)" },
      { type: "resource", resource: { uri: "attached:///todo.md", text: "attached" } },
    ],
  });
  // In one piece with the answer, which is handed over faster.
  const lines = [
    ...Array.from({ length: 200 }, (_, at) => ({
      method: "session/update",
      params: {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${at}` } },
      },
    })),
    {
      method: "session/update",
      params: {
        sessionId,
        update: {
          sessionUpdate: "tool_call",
          toolCallId: "t1",
          title: "Edit a.ts",
          kind: "edit",
          content: [{ type: "diff", path: "/root/calc/a.ts", oldText: "a", newText: "b" }],
          locations: [{ path: "/root/calc/a.ts", line: 3 }],
        },
      },
    },
    { id, result: { stopReason: "end_turn" } },
  ];
  await relayed.agent.text(lines.map((line) => JSON.stringify({ jsonrpc: "2.0", ...line }) + "\n").join(""));
  assertEquals(await turn, { stopReason: "end_turn" });
  assertEquals(
    relayed.seen.slice(0, 200).map(({ params }) => params.update.content.text),
    [
      ...Array(200).keys(),
    ].map(String),
  );
  assertEquals(relayed.seen[200].params.update, {
    sessionUpdate: "tool_call",
    toolCallId: "t1",
    title: "Edit a.ts",
    kind: "edit",
    content: [{ type: "diff", path: `${DIR}/a.ts`, oldText: "a", newText: "b" }],
    locations: [{ path: `${DIR}/a.ts`, line: 3 }],
  });
});

Deno.test("the person cancels a turn, and answers a question of the agent", async () => {
  await using relayed = new Relayed({
    dir: DIR,
    handlers: {
      "session/request_permission": () => ({ outcome: { outcome: "selected", optionId: "yes" } }),
    },
  });
  const sessionId = await relayed.open(DIR);
  const turn = relayed.editor.agent.request("session/prompt", {
    sessionId,
    prompt: [{ type: "text", text: "x" }],
  });
  const { id } = await relayed.agent.next();
  const answer = await relayed.agent.ask("q", "session/request_permission", {
    sessionId,
    toolCall: { toolCallId: "t", title: "Run make", locations: [{ path: "/root/calc/a.ts" }] },
    options: [{ optionId: "yes", name: "Yes\n\u202e", kind: "allow_once" }],
  });
  assertEquals(relayed.seen[0].params.options[0].name, "Yes \ufffd");
  assertEquals(answer.result, { outcome: { outcome: "selected", optionId: "yes" } });
  assertEquals(relayed.seen[0].params.toolCall.locations, [{ path: `${DIR}/a.ts` }]);
  await relayed.editor.agent.notify("session/cancel", { sessionId });
  assertEquals(await relayed.agent.next(), {
    jsonrpc: "2.0",
    method: "session/cancel",
    params: { sessionId },
  });
  await relayed.agent.send({ id, result: { stopReason: "cancelled" } });
  assertEquals(await turn, { stopReason: "cancelled" });
});

Deno.test("sessions of before are listed and loaded with what was said", async () => {
  await using relayed = new Relayed({ dir: DIR });
  await relayed.open(DIR);
  const listed = relayed.editor.agent.request("session/list", { cwd: DIR });
  const { params } = await relayed.agent.answer({
    sessions: [
      { sessionId: "old", cwd: "/root/calc", title: "Before" },
      { sessionId: "other", cwd: "/root/elsewhere" },
    ],
  });
  assertEquals(params, { cwd: "/root/calc" });
  assertEquals((await listed).sessions, [{ sessionId: "old", cwd: DIR, title: "Before" }]);
  const loaded = relayed.editor.agent.request("session/load", { sessionId: "old", cwd: DIR, mcpServers: [] });
  const { id } = await relayed.agent.next();
  await relayed.agent.send({
    method: "session/update",
    params: {
      sessionId: "old",
      update: { sessionUpdate: "user_message_chunk", content: { type: "text", text: "said" } },
    },
  });
  await relayed.agent.send({ id, result: {} });
  await loaded;
  assertEquals(relayed.seen.map(({ params }) => params.update.content.text), ["said"]);
});

Deno.test("a start that fails says what to do, and the next one may succeed", async () => {
  const failure = new SbxError("agent.no_key", "Robot needs a key of x, and none is stored", {
    hint: "sbx credentials add x: it stays on this host",
  });
  await using relayed = new Relayed({ dir: DIR, failure });
  for (let time = 0; time < 2; time++) {
    const error = await assertRejects(() =>
      relayed.editor.agent.request("initialize", { protocolVersion: 1 })
    );
    assertStringIncludes(`${error}`, "Robot needs a key of x, and none is stored; sbx credentials add x");
  }
});

Deno.test("an agent that ends in a turn ends the turn and the connection, with its reason", async () => {
  await using relayed = new Relayed({ dir: DIR });
  const sessionId = await relayed.open(DIR);
  const turn = relayed.editor.agent.request("session/prompt", { sessionId, prompt: [] });
  await relayed.agent.next();
  relayed.end(new SbxError("acp.failed", "Robot ended with 7", { hint: "sbx logs robot-calc" }));
  const error = await assertRejects(() => turn);
  assertStringIncludes(`${error}`, "Robot ended with 7; sbx logs robot-calc");
  await relayed.editor.closed;
  assert(await relayed.done instanceof SbxError);
});
