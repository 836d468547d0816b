/**
 * sbx-ask of a hostile guest: it floods its person, writes text that looks like sbx's own questions and
 * answers, and asks for access that no person may give. The guest's program, the endpoint, the gate and the
 * words on the host are the real ones.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { run } from "../../../cmd/guest/ask/program.ts";
import { type Access, readArguments } from "../../../cmd/guest/ask/request.ts";
import { askLine, askTable } from "../../../cmd/sbx/rules/asks.ts";
import { questionOf } from "../../../cmd/sbx/vm/shown_asks.ts";
import type { AskView } from "../../../lib/client/api/mod.ts";
import { LocalServer } from "../../../lib/mcp/endpoint/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Draft } from "../../../lib/policy/mod.ts";
import { AccessRequests } from "../../../lib/session/access.ts";
import { askTool } from "../../../lib/session/ask_tool.ts";
import { TestGate } from "../../helper/gate.ts";
import { EMPTY_CATALOGUE } from "../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../helper/mcp_endpoint_guest.ts";
import { http } from "../../helper/policy.ts";
import { eventually } from "../../helper/sbx.ts";

const RULES = `
[corp.rules.never]
action = "block"
match = 'http.request.host == "evil.example"'

[profiles.rules.locked]
action = "block"
match = 'has(http.request) || has(dns.request)'
`;

/** A VM with the guest's program. */
async function withGuest(use: (world: Awaited<ReturnType<typeof worldOf>>) => Promise<void>): Promise<void> {
  const world = worldOf();
  try {
    await use(world);
  } finally {
    world.gate.close();
    world.access.close();
    await world.guest[Symbol.asyncDispose]();
  }
}

function worldOf() {
  const gate = new TestGate(RULES);
  const access: AccessRequests = new AccessRequests({
    gate,
    scrub: (text) => text.replaceAll("sk-secret", "[redacted]"),
    apply: () => gate.use(compilePolicy([...parseRules(RULES, "f.toml"), ...access.rules]), []),
  });
  const local = new LocalServer({ ask: access.ask, tools: [askTool(gate)] });
  const guest = new GuestSide({ gate, catalogue: EMPTY_CATALOGUE, local });
  /** Runs sbx-ask. @returns its exit code and text */
  const sbxAsk = async (...args: string[]): Promise<[number, string]> => {
    const said: string[] = [];
    const wanted = readArguments(args) as { access: Access; json: boolean };
    const code = await run(wanted, {
      out: (text) => said.push(text),
      note: (text) => said.push(text),
      open: () => Deno.connect({ transport: "unix", path: guest.path }),
    }).catch((error: Error) => {
      said.push(error.message);
      return 1;
    });
    return [code, said.join("\n")];
  };
  const decide = (host: string, path = "/") =>
    gate.preview(http({ host, method: "GET", scheme: "https", port: 443, path }) as Draft).decision.decision;
  return { gate, access, guest, sbxAsk, decide };
}

Deno.test("sbx-ask asks with its reason, waits, and the request passes after a yes", () =>
  withGuest(async ({ gate, sbxAsk, decide }) => {
    assertEquals(await sbxAsk("--list"), [0, "nothing waits for your user"]);
    const asked = sbxAsk("https://api.example.com/docs", "--why", "to read the API's docs");
    await eventually("it is asked", () => gate.asks.pending().length === 1);
    const [ask] = gate.asks.pending();
    const [code, list] = await sbxAsk("--list");
    assertEquals(code, 0);
    assertStringIncludes(list, `${ask.ask_id}  http.request GET https://api.example.com/docs`);
    gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "session" });
    assertEquals(await asked, [
      0,
      `sbx-ask: waits for a person: ${ask.ask_id}\nyour user allowed it for this session`,
    ]);
    assertEquals([decide("api.example.com", "/docs"), decide("api.example.com", "/other")], [
      "allow",
      "block",
    ]);
  }));

Deno.test("a flood is two questions at once, and an answer of no is not asked again", () =>
  withGuest(async ({ gate, sbxAsk }) => {
    const flood = Array.from({ length: 40 }, (_, at) => sbxAsk(`h${at}.example`, "--why", "please"));
    await eventually("some are asked", () => gate.asks.pending().length === 2);
    const refused = await Promise.race(flood);
    assertEquals(refused[0], 1);
    assertStringIncludes(refused[1], "2 such questions at once and 20 an hour");
    assertEquals(gate.asks.pending().length, 2);
    for (const { ask_id } of gate.asks.pending()) {
      gate.asks.resolve(ask_id, { decision: "deny", scope: "minutes", minutes: 10 });
    }
    const ended = await Promise.all(flood);
    assertEquals(ended.filter(([code]) => code === 0), []);
    const [host] = [...ended.keys()].filter((at) => ended[at][1].includes("your user denied it"));
    const [code, text] = await sbxAsk(`h${host}.example`, "--why", "pretty please");
    assertEquals([code, gate.asks.pending().length], [1, 0]);
    assertStringIncludes(text, "your user denied it");
  }));

Deno.test("a reason that looks like sbx's question, or like an answer, stays one quoted line of the program", () =>
  withGuest(async ({ gate, sbxAsk }) => {
    const fake = 'docs" (your rule)\nsbx asks ask-1-2: http.request GET https://good.example/ (mine)\r\n' +
      "\x1b[2J\u202eallow? y = once\u2028key sk-secret";
    const asked = sbxAsk("api.example.com", "--why", fake);
    await eventually("it is asked", () => gate.asks.pending().length === 1);
    const ask = gate.asks.pending()[0] as AskView;
    const named = { ...ask, vm: "dev" };
    for (const text of [questionOf(ask), askLine(named), askTable([named]).split("\n")[1]]) {
      // deno-lint-ignore no-control-regex
      assert(!/[\x00-\x1f\u202e\u2028]/.test(text), text);
      assertStringIncludes(text, 'a program in the VM says: "docs\\" (your rule) ');
      assertMatch(text, /any request to https:\/\/api\.example\.com/);
      assert(!text.includes("sk-secret"));
    }
    gate.asks.resolve(ask.ask_id, { decision: "deny", scope: "once" });
    await asked;
  }));

Deno.test("corp's rules, private addresses and other ports cannot be asked for", () =>
  withGuest(async ({ gate, sbxAsk }) => {
    assertStringIncludes((await sbxAsk("evil.example", "--why", "x"))[1], 'rule "never"');
    for (const host of ["169.254.169.254", "192.168.1.1", "[fd00::1]", "localhost"]) {
      assertEquals((await sbxAsk(host, "--why", "x"))[0], 1, host);
    }
    assertEquals(gate.asks.pending(), []);
  }));

Deno.test("sbx-ask understands hosts and URLs, and refuses what cannot be asked", () => {
  const access = (...args: string[]) => (readArguments(args) as { access: Access }).access;
  assertEquals(access("a.example", "--why", "x"), { host: "a.example", why: "x", host_access: true });
  assertEquals(access("https://a.example:443/p?q#f", "--why=x", "--method", "post"), {
    host: "a.example",
    why: "x",
    path: "/p",
    method: "POST",
  });
  for (
    const args of [
      ["a.example"],
      ["a.example", "--why", ""],
      ["a.example", "b.example", "--why", "x"],
      ["http://a.example", "--why", "x"],
      ["a.example:80", "--why", "x"],
      ["https://u@a.example", "--why", "x"],
      ["--list", "a.example"],
      ["--yes", "a.example"],
    ]
  ) {
    let fault = "";
    try {
      readArguments(args);
    } catch (error) {
      fault = (error as Error).message;
    }
    assert(fault !== "", args.join(" "));
  }
});
