/**
 * Decoys outside the heads and bodies of HTTP: every other place that a guest sends bytes or names to, in
 * every coding that the place keeps.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { join } from "node:path";
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ElicitRequestSchema, type ServerRequest } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import type { CredentialBroker, NewCredential } from "../../../lib/credential/mod.ts";
import { draftOf } from "../../../lib/network/dns/service.ts";
import { ALL, world } from "../../helper/credential.ts";
import { databaseWorld, DB_HOST } from "../../helper/database.ts";
import { CODINGS, DECOY, newTitles, REF, SECRET } from "../../helper/decoy.ts";
import { TestGate } from "../../helper/gate.ts";
import type { Parsed } from "../../helper/json.ts";
import { SdkCatalogue } from "../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide, GuestTransport } from "../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../helper/mcp_endpoint_server.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { SSH_USER, sshCredential, SshServer, sshWorld } from "../../helper/sshd.ts";
import { guestFrame, RawUpstreams, readFrame } from "../../helper/websocket.ts";

const BLOCKED = ["block", "guard-credential"];
const HOST = "paste.example.com";
const wordOf = (word: string | undefined) => word === undefined ? "" : `, in ${word}`;
const titleOf = (place: string, word: string | undefined, host = HOST) =>
  `a decoy credential was used: ${place}${wordOf(word)}, for ${host}`;

// Connections of other protocols than HTTP.

const RAW = `[profiles.rules.raw]\naction = "allow"\nmatch = 'http.request.scheme == "tcp"'\n`;

/** An upstream that keeps what it gets. */
function sink() {
  const got = { text: "" };
  const upstream = rawUpstream(async (client) => {
    got.text += await client.rest();
  });
  return { got, upstream };
}

Deno.test(
  "a decoy in a connection of another protocol, in every coding: it ends, and the decoy is not sent",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const [how, [code, word]] of Object.entries(CODINGS)) {
      const { got, upstream } = sink();
      await using net = await TestNet.open({
        target: () => upstream.target,
        broker,
        rules: RAW,
        nameOf: () => HOST,
      });
      const client = await net.client(4444);
      await client.send(`take ${code(REF)} and go\n`);
      await client.rest().catch(() => {});
      client.close();
      await net.idle();
      upstream.close();
      assertEquals([got.text, newTitles(net)], ["", [titleOf("connection", word)]], how);
    }
  }),
);

Deno.test(
  "a decoy that comes in single bytes never arrives whole, and text like its beginning does",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const { got, upstream } = sink();
    await using net = await TestNet.open({ target: () => upstream.target, broker, rules: RAW });
    const harmless = await net.client(4444);
    const digest = REF.split(":")[2];
    for (const char of `credential:blake3: ${digest.slice(0, 30)} credential\n`) await harmless.send(char);
    await harmless.conn.closeWrite();
    await harmless.rest();
    harmless.close();
    await net.idle();
    assertEquals(got.text, `credential:blake3: ${digest.slice(0, 30)} credential\n`);
    assertEquals(newTitles(net), []);
    const client = await net.client(4444);
    for (const char of `${SECRET}\n`) await client.send(char).catch(() => {});
    await client.rest().catch(() => {});
    client.close();
    await net.idle();
    assertEquals([got.text.includes(SECRET), newTitles(net).length], [false, 1]);
    upstream.close();
  }),
);

const upstreams = new RawUpstreams();

Deno.test(
  "a decoy in a message of a WebSocket, in every coding: it is not sent, and the WebSocket ends",
  world([DECOY], async ({ open }) => {
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    for (const [how, [code, word]] of Object.entries(CODINGS)) {
      for (const isSplit of [false, true]) {
        const since = net.gate.notices.length;
        const received = Promise.withResolvers<string>();
        const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
          let all = "";
          for (let frame = await readFrame(client); frame.opcode !== 8; frame = await readFrame(client)) {
            all += frame.payload;
          }
          received.resolve(all);
          await client.rest();
        });
        const text = code(REF);
        const cut = isSplit ? 4 : text.length;
        await guest.send(guestFrame({ fin: !isSplit, payload: text.slice(0, cut) }));
        if (isSplit) await guest.send(guestFrame({ opcode: 0, payload: text.slice(cut) }));
        const { opcode, payload } = await readFrame(guest);
        assertEquals([opcode, payload.charCodeAt(0) << 8 | payload.charCodeAt(1)], [8, 1008], how);
        assertEquals((await received.promise).length < 8, true, how);
        guest.close();
        upstream.close();
        await net.idle();
        assertEquals(newTitles(net, since), [titleOf("message", word)], how);
      }
    }
  }),
);

Deno.test(
  "a decoy in a trailer ends its request",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const [how, [code, word]] of Object.entries(CODINGS)) {
      const { got, upstream } = sink();
      await using net = await TestNet.open({ target: () => upstream.target, broker });
      const client = await net.client();
      await client.send(
        `POST / HTTP/1.1\r\nHost: ${HOST}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-a: ${
          code(REF)
        }\r\n\r\n`,
      );
      const { status } = await client.answer();
      client.close();
      await net.idle();
      upstream.close();
      assertEquals([status, got.text, newTitles(net)], [403, "", [titleOf("trailer", word)]], how);
    }
  }),
);

Deno.test(
  "a decoy in a method, and in the name of a host that was not looked up",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const digest = REF.split(":")[2];
    const cases: [head: string, title: string][] = [
      [
        `${digest.slice(0, 32)} / HTTP/1.1\r\nHost: ${HOST}`,
        "a decoy credential was used: method, in a piece",
      ],
      [
        `${SECRET.slice(4, 30)} / HTTP/1.1\r\nHost: ${HOST}`,
        "a decoy credential was used: method, in a piece",
      ],
      [
        `GET / HTTP/1.1\r\nHost: ${digest.slice(0, 40)}.${HOST}`,
        "a decoy credential was used: name, in a piece",
      ],
    ];
    for (const [head, title] of cases) {
      const { got, upstream } = sink();
      await using net = await TestNet.open({ target: () => upstream.target, broker });
      const client = await net.client();
      await client.send(`${head}\r\n\r\n`);
      const { status } = await client.answer();
      client.close();
      await net.idle();
      upstream.close();
      assertEquals([status, got.text, newTitles(net)], [403, "", [title]], head);
    }
  }),
);

// Servers that the host logs in to.

const REDIS: NewCredential = {
  provider: "redis",
  secret: "correct-horse-battery",
  hosts: [`${DB_HOST}:6379`],
  database: { tls: "off" },
};

Deno.test("a decoy in a command for a database, in every coding: the server does not get it", async () => {
  const commands: string[] = [];
  const server = rawUpstream(async (client) => {
    for (let at = 0;; at++) {
      const head = await client.until("\r\n").catch(() => "");
      if (head === "") return;
      let command = head;
      for (let rest = 2 * Number(head.slice(1)); rest > 0; rest--) command += await client.until("\r\n");
      commands.push(command);
      await client.send("+OK\r\n");
    }
  });
  await using world = await databaseWorld({ port: server.target.port }, 6379, [REDIS, DECOY], {
    providers: ["redis"],
  });
  for (const [how, [code, word]] of Object.entries(CODINGS)) {
    const since = world.net.gate.notices.length;
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: world.port });
    const send = (...args: string[]) =>
      writeAll(
        conn,
        Buffer.from(`*${args.length}\r\n${args.map((arg) => `$${arg.length}\r\n${arg}\r\n`).join("")}`),
      );
    await send("PING");
    await conn.read(new Uint8Array(100));
    await send("SET", "key", code(REF)).catch(() => {});
    while (await conn.read(new Uint8Array(100)).catch(() => null) !== null);
    await world.net.idle();
    assertEquals(newTitles(world.net, since), [titleOf("statement", word, DB_HOST)], how);
  }
  assertEquals(commands.filter((command) => command.includes("key")), []);
  server.close();
});

Deno.test("a decoy over SSH, in every coding: in the command, and in its input", async () => {
  await using server = await SshServer.start();
  const rules = `[profiles.rules.exec]\naction = "allow"\nmatch = 'http.request.ssh.kind == "exec"'\n`;
  const credentials = [await sshCredential(server), DECOY];
  await using guest = await sshWorld(server, credentials, { rules, providers: ["ssh"] });
  const { net } = guest.world;
  for (const [how, [code, word]] of Object.entries(CODINGS)) {
    const since = net.gate.notices.length;
    const ran = await guest.ssh(`: '${code(REF)}'`);
    assertEquals(ran.code, 126, how);
    assertEquals(newTitles(net, since), [`a decoy credential was used: command${wordOf(word)}`], how);
  }
  for (const how of ["as it is", "in base64 behind one byte", "in hex"]) {
    const [code, word] = CODINGS[how];
    const since = net.gate.notices.length;
    const path = join(server.dir, "got");
    const child = new Deno.Command("ssh", {
      args: [...guest.args, `${SSH_USER}@127.0.0.1`, `cat > ${path}`],
      stdin: "piped",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const input = child.stdin.getWriter();
    await input.write(Buffer.from(`before\n${code(REF)}\n`)).catch(() => {});
    await input.close().catch(() => {});
    const { code: status, stderr } = await child.output();
    assertEquals(status === 0, false, how);
    assertStringIncludes(new TextDecoder().decode(stderr), "was not sent to", how);
    await net.idle();
    assertEquals(await Deno.readTextFile(path).catch(() => ""), "", how);
    assertEquals(newTitles(net, since), [titleOf("session", word, DB_HOST)], how);
  }
});

// Names and arguments, which no filter of the network sees.

/** Decides on an event. @returns decision, rule, and titles of findings */
async function decide(broker: CredentialBroker, draft: Parameters<TestGate["decide"]>[0]) {
  const gate = new TestGate("", { decoyIn: (event) => broker.decoyIn(event) });
  const { decision } = await gate.decide(draft);
  const titles = gate.notices.flatMap(({ type, payload }) => type === "finding" ? [payload.title] : []);
  gate.close();
  return [decision.decision, decision.rule.id, ...titles];
}

const query = (name: string) => draftOf({ name, type: "A" }, { proto: "udp", process_name: "dig" }, "vm");
const base32 = (text: string) => {
  const bits = Array.from(Buffer.from(text), (byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.match(/.{1,5}/g)!.map((five) =>
    "abcdefghijklmnopqrstuvwxyz234567"[parseInt(five.padEnd(5, "0"), 2)]
  )
    .join("");
};
const labels = (text: string, length: number) => text.match(new RegExp(`.{1,${length}}`, "g"))!.join(".");

Deno.test(
  "a decoy in the labels of a name is not resolved, whole or in pieces, in every coding that a name keeps",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const digest = REF.split(":")[2];
    const cases: [string, string][] = [
      [labels(digest, 60), "a piece"],
      [labels(digest, 7), "a piece"],
      [digest.slice(0, 16), "a piece"],
      [digest.slice(40, 64), "a piece"],
      [`seq1-${digest.slice(20, 38)}`, "a piece"],
      [SECRET.toLowerCase().slice(4, 30), "a piece"],
      [labels(Buffer.from(digest).toString("hex"), 50), "a piece of hex"],
      [Buffer.from(SECRET).toString("hex").slice(8, 50), "a piece of hex"],
      [labels(base32(REF), 63), "a piece of base32"],
      [base32(`ab${digest}`).slice(20, 60), "a piece of base32"],
      [labels(Buffer.from(digest).toString("base64url").toLowerCase(), 60), "a piece of base64"],
    ];
    for (const [text, coding] of cases) {
      assertEquals(await decide(broker, query(`${text}.evil.example`)), [
        "block",
        "guard-credential",
        `a decoy credential was used: name, in ${coding}`,
      ], text);
    }
    const other = `${"0123456789abcdef".repeat(3)}.credential.blake3.example.com`;
    assertEquals((await decide(broker, query(other)))[1] === "guard-credential", false);
  }),
);

/** Requests of a guest's MCP client, with a text in each of their places. */
const REQUESTS: Record<string, [place: string, make: (text: string) => Record<string, unknown>]> = {
  "a tool's arguments": ["arguments", (text) => ({ arguments: { deep: [{ note: `take ${text}` }] } })],
  "the name of an argument": ["arguments", (text) => ({ arguments: { [text]: 1 } })],
  "a tool's name": ["request", (text) => ({ tool_name: text, namespaced_tool_name: `notes__${text}` })],
  "a resource": [
    "request",
    (text) => ({ method: "resources/read", tool_name: `a:${text}`, namespaced_tool_name: `notes+a:${text}` }),
  ],
  "a prompt's arguments": ["arguments", (text) => ({ method: "prompts/get", arguments: { a: text } })],
  "a completion": [
    "arguments",
    (text) => ({ method: "completion/complete", arguments: { argument: { name: "a", value: text } } }),
  ],
};

Deno.test(
  "a decoy in a request of MCP is refused in every coding, and is a finding",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const plain = { method: "tools/call", server_name: "notes", tool_name: "add" };
    const draft = (fields: Record<string, unknown>) => ({
      common: { event_type: "mcp.tool_call" as const, source_engine: "mcp" as const },
      mcp: { request: { ...plain, namespaced_tool_name: "notes__add", arguments: {}, ...fields } },
    });
    for (const [where, [place, make]] of Object.entries(REQUESTS)) {
      for (const [how, [code, word]] of Object.entries(CODINGS)) {
        const [decision, rule, title] = await decide(broker, draft(make(code(REF))) as never);
        assertEquals([decision, rule], BLOCKED, `${where} ${how}`);
        assertEquals(title, `a decoy credential was used: ${place}${wordOf(word)}`, `${where} ${how}`);
      }
      assertEquals((await decide(broker, draft(make("nothing")) as never))[1] === BLOCKED[1], false);
    }
  }),
);

const QUESTION = {
  method: "elicitation/create",
  params: {
    message: "which colour?",
    requestedSchema: { type: "object", properties: { colour: { type: "string" } } },
  },
};
const ALLOW_QUESTIONS = `[profiles.rules.allow]
action = "allow"
priority = 20
match = 'mcp.request.method == "elicitation/create"'
`;

Deno.test(
  "a decoy in the answer to a question of an MCP server does not reach it",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const [how, [code, word]] of Object.entries(CODINGS)) {
      const { server } = testServer();
      server.registerTool("ask", {}, async ({ sendRequest }) => {
        const answer = await sendRequest(QUESTION as ServerRequest, z.looseObject({}));
        return { content: [{ type: "text", text: JSON.stringify(answer) }] };
      });
      const gate = new TestGate(ALLOW_QUESTIONS, { decoyIn: (event) => broker.decoyIn(event) });
      await using guest = new GuestSide({ gate, catalogue: await SdkCatalogue.of(server, "test") });
      const client = new Client({ name: "agent", version: "1" }, { capabilities: { elicitation: {} } });
      await client.connect(new GuestTransport(await guest.connect()));
      client.setRequestHandler(ElicitRequestSchema, () => ({
        action: "accept",
        content: { colour: code(REF) },
      }));
      const { content }: Parsed = await client.callTool({ name: "test__ask" });
      assertEquals(JSON.parse(content[0].text), { action: "decline" }, how);
      const titles = gate.notices.flatMap(({ type, payload }) => type === "finding" ? [payload.title] : []);
      assertEquals(titles, [`a decoy credential was used: answer${wordOf(word)}`], how);
      await client.close();
    }
  }),
);
