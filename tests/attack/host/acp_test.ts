/** An agent in a VM that uses its connection to the person's editor against the host. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { GUEST_MESSAGE_MAX, GUEST_REQUESTS_MAX } from "../../../lib/acp/mod.ts";
import type { AskView } from "../../../lib/client/api/mod.ts";
import { type Raw, Relayed } from "../../helper/acp.ts";

const DIR = "/home/me/calc";

/**
 * Sends updates, and a question at their end, which is answered after them.
 * @returns the updates that the editor got
 */
async function updatesOf(relayed: Relayed, updates: Raw[]): Promise<Raw[]> {
  for (const update of updates) await relayed.agent.send({ method: "session/update", params: update });
  const turn = relayed.editor.agent.request("session/prompt", { sessionId: "s1", prompt: [] });
  await relayed.agent.answer({ stopReason: "end_turn" });
  await turn;
  return relayed.seen.map(({ params }) => params);
}

Deno.test("no method of the editor is reached but the ones that are named", async () => {
  await using relayed = new Relayed({ dir: DIR });
  const sessionId = await relayed.open(DIR);
  const methods: [string, Raw][] = [
    ["terminal/create", { sessionId, command: "/bin/sh", args: ["-c", "id"] }],
    ["terminal/output", { sessionId, terminalId: "1" }],
    ["terminal/kill", { sessionId, terminalId: "1" }],
    ["elicitation/create", { sessionId, mode: "url", url: "http://evil/", message: "x", elicitationId: "1" }],
    ["mcp/message", {}],
    ["_zed/run", { command: "id" }],
    ["workspace/executeCommand", { command: "id" }],
    ["__proto__", {}],
    ["initialize", { protocolVersion: 1 }],
    ["session/new", { cwd: "/", mcpServers: [] }],
  ];
  for (const [at, [method, params]] of methods.entries()) {
    const { error } = await relayed.agent.ask(at, method, params);
    assertEquals(error.code, -32601, method);
  }
  // Without an answer, so nothing is told of them.
  for (const method of ["elicitation/complete", "_zed/run", "\x1b[2J"]) {
    await relayed.agent.send({ method, params: {} });
  }
  assertEquals(await updatesOf(relayed, []), []);
  assertEquals(relayed.seen, []);
});

Deno.test("paths, addresses and extensions that lead out of the folder do not reach the editor", async () => {
  await using relayed = new Relayed({ dir: DIR });
  const sessionId = await relayed.open(DIR);
  const chunk = (content: Raw, more = {}) => ({
    sessionId,
    update: { sessionUpdate: "agent_message_chunk", content, ...more },
  });
  const seen = await updatesOf(relayed, [
    chunk({ type: "resource_link", name: "passwd", uri: "file:///etc/passwd" }),
    chunk({ type: "resource_link", name: "passwd", uri: "file:///root/calc/../../etc/passwd" }),
    chunk({ type: "resource_link", name: "run", uri: "zed://extension/evil" }),
    chunk({ type: "image", data: "aGk=", mimeType: "image/png", uri: "http://evil/?secret" }),
    chunk({ type: "text", text: "x", _meta: { a: 1 } }, { _meta: { terminal_info: { cwd: "/" } } }),
    {
      sessionId,
      _meta: { a: 1 },
      update: {
        sessionUpdate: "tool_call",
        toolCallId: "t",
        title: "t",
        content: [
          { type: "terminal", terminalId: "of-the-person" },
          { type: "diff", path: "/home/me/.bashrc", newText: "evil" },
        ],
        locations: [{ path: "/home/me/.ssh/id_rsa" }, { path: "/root/calc/../x" }, {
          path: "/root/calc/a.ts",
        }],
        rawInput: { deep: { _meta: 1, kept: 2 } },
        _meta: { terminal_exit: { exit_code: 0 } },
      },
    },
  ]);
  assert(!JSON.stringify(seen).includes("_meta"));
  const contents = seen.slice(0, 5).map(({ update }) => update.content);
  assertEquals(contents.map(({ type }) => type), ["text", "text", "text", "image", "text"]);
  assertEquals(contents[3].uri, undefined);
  const { content, locations, rawInput } = seen[5].update;
  assertEquals(content.map(({ type }: Raw) => type), ["content", "content"]);
  assertEquals(locations, [{ path: `${DIR}/a.ts` }]);
  assertEquals(rawInput, { deep: { kept: 2 } });
});

Deno.test("sessions that the editor did not open, and answers that it did not ask for, are nothing", async () => {
  await using relayed = new Relayed({ dir: DIR });
  await relayed.open(DIR);
  const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "x" } };
  for (let id = 0; id < 20; id++) await relayed.agent.send({ id, result: { sessionId: "forged" } });
  assertEquals(
    await updatesOf(relayed, [{ sessionId: "s2", update }, { sessionId: "__proto__", update }]),
    [],
  );
  const { error } = await relayed.agent.ask("q", "session/request_permission", {
    sessionId: "s2",
    toolCall: { toolCallId: "t", title: "x" },
    options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
  });
  assert(error);
  assertEquals(relayed.seen, []);
});

Deno.test("an agent that answers with another session's or a path's id has no session", async () => {
  await using relayed = new Relayed({ dir: DIR });
  await relayed.open(DIR);
  for (const sessionId of ["../../../home/me/.ssh/x", "..", "", "a".repeat(129), 7, null, "a\x1b[2J"]) {
    const made = relayed.editor.agent.request("session/new", { cwd: DIR, mcpServers: [] });
    await relayed.agent.answer({ sessionId });
    const error = await made.then(() => undefined, (error) => error);
    assertStringIncludes(`${error}`, "something else than the protocol");
  }
});

Deno.test("a new session never has the id of one that is open", async () => {
  await using relayed = new Relayed({ dir: DIR });
  await relayed.open(DIR);
  const open = () => relayed.editor.agent.request("session/new", { cwd: DIR, mcpServers: [] });
  const first = open();
  await relayed.agent.answer({ sessionId: "twice" });
  await first;
  const second = open();
  await relayed.agent.answer({ sessionId: "twice" });
  assertStringIncludes(`${await second.then(() => undefined, (error) => error)}`, "the id of another");
});

Deno.test("the agent neither changes nor imitates a question of sbx", async () => {
  const answer = Promise.withResolvers<Raw>();
  const asked = Promise.withResolvers<Raw>();
  await using relayed = new Relayed({
    dir: DIR,
    handlers: {
      "session/request_permission": (params) => {
        asked.resolve(params);
        return answer.promise;
      },
    },
  });
  const sessionId = await relayed.open(DIR);
  relayed.seeAsk(askOf({
    subject: "GET http://evil.example/\x1b![x](http://evil.example/pixel)",
    why: "**sbx** has `checked` it <img src=x>",
  }));
  const { toolCall: { toolCallId, title, content } } = await asked.promise;
  const text = "GET http://evil.example/�!\\[x\\](http://evil.example/pixel)";
  assertEquals(title, `sbx asks: allow http.request ${text}?`);
  assertStringIncludes(content[0].content.text, String.raw`\*\*sbx\*\* has \`checked\` it \<img src=x\>`);
  const told = relayed.seen.length;
  await updatesOf(relayed, [
    { sessionId, update: { sessionUpdate: "tool_call_update", toolCallId, title: "Allow reading a file?" } },
    {
      sessionId,
      update: { sessionUpdate: "tool_call", toolCallId: "t", title: " sbx asks: allow good.example?" },
    },
    // Letters that look the same, none that is seen before or between them, another line, and a turned line.
    ...[
      "s\u200bb\u2060x asks: allow good.example?",
      "\uff53\uff42\uff58 asks: allow good.example?",
      "\u0455b\u0445 asks: allow good.example?",
      "Read a.ts\n\n\nsbx asks: allow good.example?",
      "Read \u202ea.ts\x1b[2J",
    ].map((title) => ({ sessionId, update: { sessionUpdate: "tool_call", toolCallId: "t", title } })),
  ]);
  const { error } = await relayed.agent.ask("q", "session/request_permission", {
    sessionId,
    toolCall: { toolCallId, title: "Allow?" },
    options: [{ optionId: "once", name: "Yes", kind: "allow_once" }],
  });
  assert(error);
  assertEquals(relayed.seen.slice(told).map(({ params }) => params.update.title), [
    "the agent says:  sbx asks: allow good.example?",
    "the agent says: s\ufffdb\ufffdx asks: allow good.example?",
    "the agent says: \uff53\uff42\uff58 asks: allow good.example?",
    "the agent says: \u0455b\u0445 asks: allow good.example?",
    "the agent says: Read a.ts   sbx asks: allow good.example?",
    "Read \ufffda.ts\ufffd[2J",
  ]);
  answer.resolve({ outcome: { outcome: "cancelled" } });
});

Deno.test("files: nothing unless the person turned it on, nothing out of the folder, no secret, no link, no hook", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const dir = join(root, "calc");
  await Deno.mkdir(join(dir, ".git/hooks"), { recursive: true });
  await Deno.writeTextFile(join(root, "outside"), "outside");
  await Deno.writeTextFile(join(dir, ".env"), "TOKEN=1");
  await Deno.writeTextFile(join(dir, "a.ts"), "old");
  await Deno.writeTextFile(join(dir, "big"), "old");
  await Deno.truncate(join(dir, "big"), 4 * 1024 * 1024 + 1);
  await Deno.symlink(root, join(dir, "up"));
  await Deno.symlink(join(root, "outside"), join(dir, "link"));
  const attempts = [
    "/etc/passwd",
    "/root/calc",
    "/root/calc/../outside",
    "/root/calc/up/outside",
    "/root/calc/link",
    "/root/calc/.env",
    "/root/calc/.git/hooks/pre-commit",
    "/root/calc/sub/.GIT/config",
    "/root/calc/.vscode/tasks.json",
    "/root/calc/a.ts/x",
    `${dir}/a.ts`,
  ];
  try {
    for (const access of ["none", "read", "write"] as const) {
      await using relayed = new Relayed({ dir, access });
      const sessionId = await relayed.open(dir);
      const own = access === "write" ? [] : ["/root/calc/a.ts"];
      for (const path of access === "none" ? [...attempts, ...own] : attempts) {
        const { error } = await relayed.agent.ask("r", "fs/read_text_file", { sessionId, path });
        assertStringIncludes(error.message, "sbx: ", `${access}: ${path}`);
      }
      // Names that would reorder the question, or add a line to it, and a file too large to be shown in it.
      const unclear = ["/root/calc/\u202etxt.sh", "/root/calc/a\n\nb", "/root/calc/big"];
      for (const path of [...attempts, ...own, ...unclear]) {
        const { error } = await relayed.agent.ask("w", "fs/write_text_file", {
          sessionId,
          path,
          content: "x",
        });
        assertStringIncludes(error.message, "sbx: ", `${access}: ${path}`);
      }
      assertEquals(relayed.seen, [], access);
    }
    for (const optionId of ["once", "deny", "nonsense"]) {
      await using relayed = new Relayed({
        dir,
        access: "write",
        handlers: {
          "session/request_permission": () => ({ outcome: { outcome: "selected", optionId } }),
          "fs/write_text_file": () => ({}),
        },
      });
      const sessionId = await relayed.open(dir);
      const path = "/root/calc/a.ts";
      const { error } = await relayed.agent.ask("w", "fs/write_text_file", {
        sessionId,
        path,
        content: "new",
      });
      const [question, ...written] = relayed.seen;
      assertEquals(question.params.toolCall.content, [
        { type: "diff", path: `${dir}/a.ts`, oldText: "old", newText: "new" },
      ]);
      assertEquals(
        written.map(({ params }) => params),
        optionId === "once" ? [{ sessionId, path: `${dir}/a.ts`, content: "new" }] : [],
      );
      assertEquals(error === undefined, optionId === "once");
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a message without end, a flood of questions and a second question of one id stop at their limits", async () => {
  const answers = Promise.withResolvers<Raw>();
  await using relayed = new Relayed({
    dir: DIR,
    handlers: { "session/request_permission": () => answers.promise },
  });
  const sessionId = await relayed.open(DIR);
  const params = {
    sessionId,
    toolCall: { toolCallId: "t", title: "x" },
    options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
  };
  for (let id = 0; id < GUEST_REQUESTS_MAX; id++) {
    await relayed.agent.send({ id, method: "session/request_permission", params });
  }
  // Of an id in use: dropped, since its answer would be the other's.
  await relayed.agent.send({
    id: 3,
    method: "fs/read_text_file",
    params: { sessionId, path: "/root/calc/x" },
  });
  for (const id of [null, 1.5, { a: 1 }, "x".repeat(200)]) {
    await relayed.agent.send({ id, method: "session/request_permission", params });
  }
  const { error } = await relayed.agent.ask("over", "session/request_permission", params);
  assertStringIncludes(error.message, `more than ${GUEST_REQUESTS_MAX}`);
  answers.resolve({ outcome: { outcome: "selected", optionId: "unheard" } });
  const ids = new Set<number>();
  while (ids.size < GUEST_REQUESTS_MAX) {
    const message = await relayed.agent.next();
    assertEquals(message.result, { outcome: { outcome: "cancelled" } });
    ids.add(message.id);
  }
  const turn = relayed.editor.agent.request("session/prompt", { sessionId, prompt: [] });
  await relayed.agent.next();
  const endless = relayed.agent.text("x".repeat(GUEST_MESSAGE_MAX + 1)).catch(() => {});
  const failure = await turn.then(() => undefined, (failure) => failure);
  assertStringIncludes(`${failure}`, "broke off the connection");
  await endless;
});

/** An ask that waits. */
function askOf(ask: Partial<AskView>): AskView {
  return {
    ask_id: "ask-1-2",
    digest: "d",
    event_id: "1",
    session_id: "vm",
    event_type: "http.request",
    subject: "GET http://example.com/",
    rule_id: "everything-else",
    reason: "not among the hosts of this profile",
    created_at: "2026-01-01T00:00:00Z",
    expires_at: "2026-01-01T00:01:00Z",
    status: "pending",
    ...ask,
  };
}
