/** A guest learns from a refusal which rule and why: nothing of the host, and not how to change the rule. */
// @ts-types="@modelcontextprotocol/sdk/types"
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import type { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { guestLine } from "../../../lib/policy/mod.ts";
import { execProgram } from "../../../lib/session/exec.ts";
import type { SessionHealth } from "../../../lib/session/health.ts";
import { RULES_FILE, TestGate } from "../../helper/gate.ts";
import { SdkCatalogue } from "../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../helper/mcp_endpoint_server.ts";
import { TestNet } from "../../helper/net.ts";
import { ask, read, records, TestResolver } from "../../helper/resolver.ts";
import { ANY, http, rule } from "../../helper/session_gate.ts";

const REASON = 'reason = "not for agents"';
/** One rule for everything, near misses, and rules that fail. */
const RULES =
  rule("profiles", "near", "allow", 'http.request.host == "internal.corp" && http.request.port == 80') +
  rule("profiles", "no", "block", ANY, `${REASON}\npriority = 20`);
const FAILING = rule("corp", "broken", "block", "1 / (http.request.port - 80) > 0");

/** Fails where the text has a place on the host or advice to change a rule. */
function assertPlain(text: string): void {
  assert(!text.includes("/home/ann") && !text.includes(RULES_FILE), text);
  assert(
    !/profile\.toml|internal\.corp|near|enabled = false|allow it|change |matched|layer|evaluated/.test(text),
    text,
  );
}

for (
  const [what, rules, reason, askable] of [
    ["blocks", RULES, "not for agents", true],
    ["fails", FAILING, "division by zero", false],
  ] as const
) {
  Deno.test(`HTTP: the 403 of a rule that ${what}`, async () => {
    await using net = await TestNet.open({ rules });
    const client = await net.client();
    const { status, body: text } = await client.ask("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
    assertEquals(status, 403);
    assertPlain(text);
    const refusal = JSON.parse(text);
    const { ask, ...rest } = refusal;
    assertEquals(Object.keys(rest), ["event_id", "decision", "rule", "hint"]);
    assertEquals(ask, askable ? "sbx-ask HOST --why TEXT" : undefined);
    assertStringIncludes(refusal.rule.reason, reason);
    assertEquals([Object.keys(refusal.rule), refusal.hint], [["id", "reason"], "ask your user"]);
    // The record itself stays whole, for people.
    const { decision } = net.gate.entries[0];
    assertEquals(decision?.rule.file, RULES_FILE);
    assertMatch(decision!.remedy!, /^allow it in the profile|administrator/);
  });
}

Deno.test("HTTP: errors of the host", async () => {
  await using net = await TestNet.open({
    lookup: () =>
      Promise.reject(new SbxError("ledger.unavailable", "the ledger /home/ann/session.db is full")),
    broker: {
      capture: (_, headers) => ({ headers, substitutions: [] }),
      inject: () => {
        throw new SbxError("credential.key_missing", "the key of the store /home/ann/key is missing", {
          hint: "remove /home/ann/key",
        });
      },
      trailers: () => ({ headers: [], substitutions: [] }),
      guards: () => false,
      answer: (_, headers) => ({ headers, substitutions: [] }),
      scrubFields: (headers) => headers,
      scrub: (text) => text,
      bodies: () => undefined,
      messages: () => ({ push: (piece) => piece, substitutions: [] }),
    },
  });
  const client = await net.client();
  const { status, body: text } = await client.ask("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
  assertEquals(status, 500);
  assertEquals(JSON.parse(text), {
    error: "sbx cannot do this now",
    code: "credential.key_missing",
    hint: "ask your user",
  });
});

Deno.test("DNS: the text of a refusal", async () => {
  const resolver = await TestResolver.start(records());
  const dns = new DnsService({ gate: new TestGate(RULES), resolvers: [resolver.endpoint] });
  const { text } = read(await dns.answer(ask("a.test"), { proto: "udp", process_name: "curl" })).error;
  assertEquals(text, 'blocked by policy: not for agents (rule "no"); ask your user');
  resolver.close();
});

Deno.test("MCP: message and data of an error", async () => {
  const { server } = testServer();
  const guest = new GuestSide({
    gate: new TestGate(RULES),
    catalogue: await SdkCatalogue.of(server, "test"),
  });
  await using _ = guest;
  const client = await guest.client();
  const error = await assertRejects(() => client.callTool({ name: "test__shout" }), McpError);
  assertPlain(error.message + JSON.stringify(error.data));
  assertEquals(Object.keys(error.data as object), ["event_id", "decision", "rule", "hint"]);
});

Deno.test("MCP: a failing host", async () => {
  const { server } = testServer();
  const catalogue = await SdkCatalogue.of(server, "test");
  const problem = new SbxError("mcp.pins.unreadable", "cannot read /home/ann/pins.json", {
    hint: "remove /home/ann",
  });
  Object.assign(catalogue, { callTool: () => Promise.reject(problem) });
  const gate = new TestGate();
  const guest = new GuestSide({ gate, catalogue });
  await using _ = guest;
  const client = await guest.client();
  const error = await assertRejects(() => client.callTool({ name: "test__shout" }), McpError);
  assertPlain(error.message + JSON.stringify(error.data));
  assertEquals(gate.entries[0].outcome?.error, problem.message);
});

Deno.test("programs: the line of a refusal", async () => {
  const lines: string[] = [];
  const { exit_code } = await execProgram(
    {
      gate: new TestGate(RULES),
      activity: { hostStarted() {}, holds: { ready: () => Promise.resolve() }, looks: { order() {} } },
      link: () => Promise.resolve({} as GuestLink),
      health: {} as SessionHealth,
      defaults: {},
    },
    { t: "Exec", argv: ["curl"], stdin: false },
    {
      output: (_, data) => {
        lines.push(new TextDecoder().decode(Uint8Array.fromBase64(data)));
        return Promise.resolve();
      },
    } as Parameters<typeof execProgram>[2],
  );
  assertEquals(exit_code, 126);
  assertMatch(
    lines.join(""),
    /^sbx: blocked by policy: not for agents \(rule "no"\); ask your user; sbx why \w+ shows the record\n$/,
  );
});

Deno.test("a denied ask does not name the person who denied it", async () => {
  const gate = new TestGate(rule("profiles", "ask", "ask", ANY, REASON));
  const asking = gate.decide(http());
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "once" }, {
    user: "ann",
    client: "x",
  });
  assertEquals(
    guestLine((await asking).decision),
    'blocked by policy: not for agents (rule "ask"); your user denied it',
  );
});
