/** Output of commands: tables, records and lines, from the responses of the API. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { askLine, askTable, type NamedAsk } from "../../../cmd/sbx/rules/asks.ts";
import { joinPacks, packsInForce } from "../../../cmd/sbx/rules/lab.ts";
import { command as mcp } from "../../../cmd/sbx/rules/mcp.ts";
import { lastWords } from "../../../cmd/sbx/output.ts";
import { formatWhy } from "../../../cmd/sbx/record/why.ts";
import { type CommandGroup, findSubcommand, parseArguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { OverlayStore, overlayView, packViews } from "../../../lib/detection/active/mod.ts";
import { readApproval, readWhy } from "../../../lib/ledger/read/mod.ts";
import { afterAsk } from "../../../lib/policy/decision/mod.ts";
import type { AskRecord } from "../../../lib/policy/mod.ts";
import { ir, rule } from "../../helper/detection.ts";
import { fromRoot } from "../../helper/repo.ts";
import { http, withGate } from "../../helper/session_gate.ts";

const ASKING = `[profiles.rules.ask-del]
action = "ask"
match = 'http.request.method == "DELETE"'
reason = "Ask before a DELETE"
`;

Deno.test("asks: the VM, the event, and the remaining time", () =>
  withGate(ASKING, async ({ gate, notices }) => {
    const verdict = gate.decide(http("api.example.com", "DELETE"));
    const asks = gate.asks.pending().map((ask): NamedAsk => ({ ...ask, vm: "dev" }));
    const [headings, row] = askTable(asks).split("\n");
    assertMatch(headings, /^ASK +VM +TIME LEFT +TYPE +SUBJECT +RULE +REASON +--for COVERS$/);
    assertMatch(
      row,
      /^ask-[0-9a-f]{12}-[0-9a-f]{8} +dev +(60|59) s +http\.request +DELETE https:\/\/api\.example\.com\/ +ask-del +Ask before a DELETE +DELETE https:\/\/api\.example\.com:443\/, with any query, headers and body$/,
    );
    assertMatch(
      askLine(asks[0]),
      /dev {2}http\.request DELETE https:.* \(sbx allow ask-\w+-\w+, or sbx deny/,
    );
    // The events socket reports it too.
    const notice = notices.find(({ type }) => type === "ask")!.payload as NamedAsk;
    assertEquals(notice.subject, "DELETE https://api.example.com/");
    gate.asks.withdraw(asks[0].event_id);
    assertMatch(askLine({ ...asks[0], status: "expired" }), /\(not answered in time\)$/);
    await verdict;
  }));

Deno.test("why: an answered ask has who answered and when, and no remedy that no longer applies", () =>
  withGate(ASKING, async ({ gate, ledger, path }) => {
    const recordOf = async (event_id: string) => {
      await ledger.flush();
      const { record, ...rest } = await readWhy(path, event_id);
      return formatWhy({ ...rest, ...(record && { decision: record }) } as never);
    };
    const answers = ["allow", "deny", undefined] as const;
    const texts: string[] = [];
    for (const decision of answers) {
      const asked = gate.decide(http("api.example.com", "DELETE"));
      const [{ ask_id, event_id }] = gate.asks.pending();
      if (decision) gate.asks.resolve(ask_id, { decision, scope: "once" }, { user: "ann", client: "sbx/1" });
      else gate.asks.withdraw(event_id);
      const passage = await asked;
      if (passage.allowed) passage.finish();
      texts.push(await recordOf(event_id));
    }
    const [allowed, denied, expired] = texts;
    assertMatch(allowed, /decision +allow\nanswer +allowed by ann \(sbx\/1\) at 20\S+, once\n/);
    assert(!allowed.includes("remedy"), allowed);
    assertMatch(denied, /decision +block\nanswer +denied by ann \(sbx\/1\) at 20\S+, once\n/);
    assertMatch(denied, /remedy +ann \(sbx\/1\) denied it at 20\S+: when it is tried again/);
    assertMatch(expired, /answer +no one answered within 0 s; it counted as denied/);
    for (const text of texts) assert(!text.includes("approve it"), text);
  }));

Deno.test("why: a request allowed by an answer and still under way is allowed, without a remedy", () =>
  withGate(ASKING, async ({ gate, ledger, path }) => {
    const asked = gate.decide(http("api.example.com", "DELETE"));
    const [{ ask_id, event_id }] = gate.asks.pending();
    const ofNow = async () => {
      await ledger.flush();
      const { record } = await readWhy(path, event_id);
      assertEquals(record!.decision, "ask");
      return await readApproval<AskRecord>(path, event_id);
    };
    assertEquals(await ofNow(), undefined);
    gate.asks.resolve(ask_id, { decision: "allow", scope: "minutes", minutes: 5 });
    const { decision } = await asked;
    const shown = afterAsk({ ...decision, decision: "ask", remedy: "approve it" }, (await ofNow())!);
    assertEquals([shown.decision, shown.remedy], ["allow", undefined]);
    assertEquals(shown.answered, decision.answered);
  }));

Deno.test("why: a guard has no layer, and has a remedy", () =>
  withGate("", async ({ gate, ledger, path }) => {
    const { event_id } = gate.refuse(http(), {
      id: "guard-connections",
      reason: "the VM has 512 connections open",
    });
    await ledger.flush();
    const { record, ...rest } = await readWhy(path, event_id);
    const text = formatWhy({ ...rest, decision: record } as never);
    assertStringIncludes(text, 'guard "guard-connections": built in, applied before the rules');
    assertMatch(text, /remedy +close unused connections and try again/);
  }));

Deno.test("lab: the detections in force are those of packs and those added at runtime", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const store = await OverlayStore.open(dir);
    const pack = JSON.parse(await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.json")));
    const own = rule("own", { "http.request.host": "b.example" });
    await store.put({ pack });
    await store.put({ rule: own });
    await store.put({ rule: { ...own, id: "off" }, enabled: false });
    const installed = ir([rule("one", { "http.request.host": "a.example" })], { pack_id: "a.pack" });
    const views = [
      ...packViews("user", installed, []),
      ...store.list().map((overlay) => overlayView(overlay, [])),
    ];
    const packs = await packsInForce(views);
    assertEquals(packs.map(({ pack_id, rules }) => [pack_id, rules.length]), [
      ["a.pack", 1],
      ["runtime", 1],
      [pack.id, 1],
    ]);
    assertEquals(packs[1].rules[0].id, "own");
    // Rules that are switched off are in force nowhere but in corp's packs.
    const [inPack] = packs[2].rules;
    const off = new Map(
      ["one", inPack.id].map((id) => [id, { id, reason: "ours", at: "2026-01-02T03:04:05Z" }]),
    );
    const switched = await packsInForce([
      ...packViews("corp", { ...installed, pack_id: "corp.pack" }, [], off),
      ...packViews("user", installed, [], off),
      ...store.list().map((overlay) => overlayView(overlay, [], off)),
    ]);
    assertEquals(switched.map(({ pack_id, rules }) => [pack_id, rules.length]), [
      ["corp.pack", 1],
      ["a.pack", 0],
      ["runtime", 1],
      [pack.id, packs[2].rules.length - 1],
    ]);
    // A candidate is added to them, or replaces its earlier version.
    const [fresh, next] = ["b.pack", "a.pack"].map((pack_id) => ir([own], { pack_id, pack_version: "2" }));
    const idsOf = (candidate: typeof fresh) =>
      joinPacks(packs, [candidate]).map(({ pack_id, pack_version }) => `${pack_id} ${pack_version}`);
    assertEquals([idsOf(fresh).length, idsOf(fresh)[3]], [4, "b.pack 2"]);
    assertEquals(idsOf(next).filter((id) => id.startsWith("a.pack")), ["a.pack 2"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("mcp: an extra word is rejected, with a hint at -p", async () => {
  const program = "sbx";
  const { command, rest } = await findSubcommand(program, mcp as CommandGroup, ["servers", "code"]);
  const args = await parseArguments({ program, command: command! }, rest);
  const error = await assertRejects(
    async () => await command!.run(args),
    SbxError,
    'unexpected argument "code"',
  );
  assertStringIncludes(error.hint!, "sbx mcp servers -p code");
});

Deno.test("count: singular and plural", () => {
  assertEquals([0, 1, 2].map((number) => count(number, "CPU")), ["0 CPUs", "1 CPU", "2 CPUs"]);
});

Deno.test("the words of a guest in an error are the end of its output, on one line, short and without controls", () => {
  assertEquals(lastWords("one\ntwo\r\nthree\n\nfour\n"), "two three four");
  const forged = lastWords(`tar: no\rsbx: it is safe\x1b[2J\n${"x".repeat(10_000)}`);
  assertEquals([forged.length, forged.includes("\n"), forged.includes("\r")], [400, false, false]);
  assertEquals(lastWords("\n"), "");
});
