/** What commands print: tables, records and lines, from the answers that they get. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { parseArguments } from "../../../cmd/sbx/arguments.ts";
import { askLine, askTable, type NamedAsk } from "../../../cmd/sbx/commands/asks.ts";
import { packsInForce } from "../../../cmd/sbx/commands/lab.ts";
import { command as mcp } from "../../../cmd/sbx/commands/mcp.ts";
import { counted } from "../../../cmd/sbx/output.ts";
import { explanation } from "../../../cmd/sbx/commands/why.ts";
import { overlayView, packViews } from "../../../lib/detection/live/view.ts";
import { OverlayStore } from "../../../lib/detection/live/overlay.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { readApproval } from "../../../lib/ledger/approvals.ts";
import { readWhy } from "../../../lib/ledger/mod.ts";
import { afterAsk } from "../../../lib/policy/ask/answer.ts";
import type { AskRecord } from "../../../lib/policy/mod.ts";
import { ir, rule } from "../../helper/detection.ts";
import { fromRoot } from "../../helper/repo.ts";
import { http, withGate } from "../../helper/session_gate.ts";

const ASKING = `[profiles.rules.ask-del]
action = "ask"
match = 'http.request.method == "DELETE"'
reason = "Ask before a DELETE"
`;

Deno.test("asks: which VM, what wants to happen, and how long there is", () =>
  withGate(ASKING, async ({ gate, told }) => {
    const verdict = gate.decide(http("api.example.com", "DELETE"));
    const asks = gate.asks.pending().map((ask): NamedAsk => ({ ...ask, vm: "dev" }));
    const [headings, row] = askTable(asks).split("\n");
    assertMatch(headings, /^ASK +VM +TIME LEFT +TYPE +WHAT +RULE +REASON$/);
    assertMatch(
      row,
      /^ask-[0-9a-f]{12} +dev +(60|59) s +http\.request +DELETE https:\/\/api\.example\.com\/ +ask-del +Ask before a DELETE$/,
    );
    assertMatch(askLine(asks[0]), /dev {2}http\.request DELETE https:.* \(sbx allow ask-\w+, or sbx deny/);
    // What listens to the service gets it too.
    const notice = told.find(({ type }) => type === "ask")!.payload as NamedAsk;
    assertEquals(notice.subject, "DELETE https://api.example.com/");
    gate.asks.withdraw(asks[0].ask_id);
    assertMatch(askLine({ ...asks[0], status: "expired" }), /\(nobody answered\)$/);
    await verdict;
  }));

Deno.test("why: an ask that was answered says by whom and when, and has no remedy that is over", () =>
  withGate(ASKING, async ({ gate, path }) => {
    const recordOf = async (event_id: string) => {
      await gate.ledger.flush();
      const { record, ...rest } = await readWhy(path, event_id);
      return explanation({ ...rest, ...(record && { decision: record }) } as never);
    };
    const answers = ["allow", "deny", undefined] as const;
    const texts: string[] = [];
    for (const decision of answers) {
      const asked = gate.decide(http("api.example.com", "DELETE"));
      const [{ ask_id, event_id }] = gate.asks.pending();
      if (decision) gate.asks.resolve(ask_id, { decision, scope: "once" }, "ann");
      else gate.asks.withdraw(ask_id);
      const verdict = await asked;
      gate.finish(verdict.event, { duration_ms: 1 });
      texts.push(await recordOf(event_id));
    }
    const [allowed, denied, expired] = texts;
    assertMatch(allowed, /decision +allow\nanswer +allowed by ann at 20\S+, once\n/);
    assert(!allowed.includes("remedy"), allowed);
    assertMatch(denied, /decision +block\nanswer +denied by ann at 20\S+, once\n/);
    assertMatch(denied, /remedy +ann denied it at 20\S+: when it is tried again/);
    assertMatch(expired, /answer +nobody answered within the 0 s that it waited; it counted as denied/);
    for (const text of texts) assert(!text.includes("approve it"), text);
  }));

Deno.test("why: what was allowed and still goes on is allowed, and not to be approved any more", () =>
  withGate(ASKING, async ({ gate, path }) => {
    const asked = gate.decide(http("api.example.com", "DELETE"));
    const [{ ask_id, event_id }] = gate.asks.pending();
    const ofNow = async () => {
      await gate.ledger.flush();
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

Deno.test("why: a guard is no rule of a layer, and says what helps", () =>
  withGate("", async ({ gate, path }) => {
    const { event } = gate.refuse(http(), {
      id: "guard-connections",
      reason: "the VM has 512 connections open",
    });
    await gate.ledger.flush();
    const { record, ...rest } = await readWhy(path, event.common.event_id);
    const text = explanation({ ...rest, decision: record } as never);
    assertStringIncludes(text, 'guard "guard-connections": built in, before any rule');
    assertMatch(text, /remedy +close connections/);
  }));

Deno.test("lab: the detections in force are those of packs and those put in at runtime", async () => {
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
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("mcp: a word too many is refused, and the profile goes behind -p", async () => {
  const given = await parseArguments(mcp, ["servers", "code"]);
  const error = await assertRejects(() => mcp.run(given), SbxError, "one word too many");
  assertStringIncludes(error.hint!, "sbx mcp servers -p code");
});

Deno.test("one is not many", () => {
  assertEquals([0, 1, 2].map((number) => counted(number, "CPU")), ["0 CPUs", "1 CPU", "2 CPUs"]);
});
