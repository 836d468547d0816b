/**
 * Answers to findings: the network is held back at once, once, over restarts, and until a person lifts it.
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { ResponseTerms } from "../../../lib/detection/response/mod.ts";
import type { Finding } from "../../../lib/event/mod.ts";
import { Orders } from "../../../lib/session/orders.ts";
import { type HeldSession, liftStill, Responder } from "../../../lib/session/response.ts";
import { httpRequest } from "../../helper/event.ts";
import { TestGate } from "../../helper/gate.ts";
import { eventually } from "../../helper/sbx.ts";

const BY = { user: "ann", client: "cli" };

function finding(change: Partial<Finding> = {}): Finding {
  return {
    finding_id: `finding-${change.event_id ?? "000000000001"}-x`,
    event_id: "000000000001",
    rule_id: "credential-decoy",
    pack_id: "sbx.builtin",
    title: "a decoy credential was used: body",
    severity: "critical",
    confidence: "high",
    tags: [],
    ...change,
  };
}

interface Held {
  path: string;
  gate: TestGate;
  responder: Responder;
  /** what was done, in order */
  calls: string[];
  /** the decision on a request now */
  decision(): Promise<string>;
}

/** @param does what a machine cannot do throws */
async function held(
  terms: ResponseTerms,
  work: (held: Held) => Promise<void>,
  does: Partial<HeldSession> = {},
): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "response.json");
    await work(open(path, terms, does));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function open(path: string, terms: ResponseTerms, does: Partial<HeldSession> = {}): Held {
  const calls: string[] = [];
  const responder = new Responder(path, "dev", terms);
  const gate = new TestGate("", { hold: responder });
  const say = (what: string) => Promise.resolve(void calls.push(what));
  responder.attach({
    gate,
    snapshot: () => say("snapshot").then(() => "s00000001"),
    cut: () => void calls.push("cut"),
    machine: { pause: () => say("pause"), suspend: () => say("suspend") },
    show: () => {},
    ...does,
  });
  const decision = async () => {
    const passage = await gate.decide({
      common: { event_type: "http.request", source_engine: "network" },
      http: { request: httpRequest() },
    });
    if (passage.allowed) passage.finish();
    return passage.decision.decision;
  };
  return { path, gate, responder, calls, decision };
}

/** Lets everything happen that waits for nothing else. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

/** Events of answers, as words. */
function answers(gate: TestGate): string[] {
  return gate.entries.flatMap(({ event: { process, common } }) =>
    process?.activity.executable === "sbx-response"
      ? [`${process.activity.argv![1]} ${common.labels.by ?? common.labels.user} ${common.labels.rule_id}`]
      : []
  );
}

Deno.test("a used decoy blocks the network at once, also after a restart, until it is lifted", () =>
  held({}, async ({ path, gate, responder, calls, decision }) => {
    assertEquals(await decision(), "allow");
    gate.report([finding()]);
    assertEquals(await decision(), "block");
    assertEquals(gate.entries.at(-1)!.decision!.rule!.id, "guard-response");
    assertEquals(answers(gate), ["block default credential-decoy"]);
    assertEquals(
      gate.notices.flatMap((notice) => notice.type === "finding" ? [notice.payload.rule_id] : []),
      ["response", "credential-decoy"].toSorted(),
    );
    await eventually("open connections are cut", () => calls.includes("cut"));

    const again = open(path, {});
    assertEquals(await again.decision(), "block");
    again.responder.lift(BY);
    assertEquals(await again.decision(), "allow");
    assertEquals(answers(again.gate), ["lift ann credential-decoy"]);
    assertEquals(await open(path, {}).decision(), "allow");
    assertEquals(assertThrows(() => again.responder.lift(BY), SbxError).code, "response.none");
    assertEquals(responder.hold?.actions.length, 1);
  }));

Deno.test("programs and files of the VM go on while its network is blocked", () =>
  held({}, async ({ gate }) => {
    gate.report([finding()]);
    const passage = await gate.decide({
      common: { event_type: "process.exec", source_engine: "process" },
      process: { activity: { executable: "ls", command: "ls", argv: ["ls"], cwd: "/", operation: "exec" } },
    });
    passage.finish();
    assertEquals(passage.allowed, true);
  }));

Deno.test("many findings at once act once; what corp demands too is added", () =>
  held({ profile: { severity: { high: ["snapshot", "suspend"] } } }, async ({ gate, responder, calls }) => {
    const many = Array.from(
      { length: 50 },
      (_, at) => finding({ event_id: `${at}`.padStart(12, "0"), rule_id: "exec-nc", severity: "high" }),
    );
    gate.report(many.slice(0, 25));
    for (const each of many.slice(25)) gate.report([each]);
    await eventually("it is suspended", () => calls.includes("suspend"));
    assertEquals(calls.filter((call) => call !== "cut"), ["snapshot", "suspend"]);
    assertEquals(answers(gate).length, 3);
    responder.terms = { corp: { severity: { high: ["block"] } } };
    gate.report(many);
    assertEquals(answers(gate).slice(3), ["block corp exec-nc"]);
    assertEquals(assertThrows(() => responder.lift(BY), SbxError).code, "response.corp");
    assertEquals(responder.hold !== undefined, true);
  }));

Deno.test("an impossible answer becomes a pause or a block, and the hold says so", () =>
  held(
    { profile: { severity: { high: ["snapshot", "suspend"] } } },
    async ({ gate, responder, decision }) => {
      gate.report([finding({ rule_id: "exec-nc", severity: "high" })]);
      assertEquals(await decision(), "block");
      await eventually("both are noted", () => responder.hold!.notes.length === 2);
      assertStringIncludes(responder.hold!.notes[0], "no snapshot was possible (the disk is full");
      assertStringIncludes(responder.hold!.notes[1], "suspend was not possible (this host lacks it");
      assertEquals(assertThrows(() => responder.requireMoving(), SbxError).code, "vm.held");
    },
    {
      snapshot: () => Promise.reject(new Error("the disk is full")),
      machine: {
        pause: () => Promise.resolve(),
        suspend: () => Promise.reject(new Error("this host lacks it")),
      },
    },
  ));

Deno.test("a snapshot that fails blocks the network, where it alone is demanded", () =>
  held({ profile: { rule: { "exec-nc": ["snapshot"] } } }, async ({ gate, decision, responder }) => {
    gate.report([finding({ rule_id: "exec-nc", severity: "low" })]);
    await eventually("the network is blocked", () => responder.hold!.actions.length === 2);
    assertEquals(await decision(), "block");
    assertEquals(answers(gate), ["snapshot profile exec-nc", "block profile exec-nc"]);
  }, { snapshot: () => Promise.reject(new Error("the disk is full")) }));

Deno.test("with ask, a person decides on what the rules allow", () =>
  held({ profile: { rule: { "exec-nc": ["ask"] } } }, async ({ gate, decision }) => {
    gate.report([finding({ rule_id: "exec-nc", severity: "low" })]);
    const decided = decision();
    const [ask] = gate.asks.pending();
    gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" }, BY);
    assertEquals(await decided, "allow");
    const late = decision();
    const [second] = gate.asks.pending();
    // No answer undoes a block.
    gate.report([finding()]);
    gate.asks.resolve(second.ask_id, { decision: "allow", scope: "once" }, BY);
    assertEquals(await late, "block");
  }));

Deno.test("a hold that cannot be read blocks", () =>
  held({}, async ({ path }) => {
    const cause = { finding_id: "f", event_id: "e", rule_id: "r", severity: "high", title: "t" };
    const holdOf = (action: string, of: object) =>
      JSON.stringify({ since_unix_ms: 1, notes: [], actions: [{ action, by: "default", cause: of }] });
    const damaged = ["", "{", "null", "{}", `{"since_unix_ms":1,"notes":[],"actions":[]}`];
    damaged.push(holdOf("bloc", cause), holdOf("snapshot", { ...cause, title: 7 }));
    for (const text of damaged) {
      await Deno.writeTextFile(path, text);
      assertEquals(await open(path, {}).decision(), "block", text);
    }
    const ofCorp = open(path, { corp: { severity: { critical: ["block"] } } });
    assertEquals(assertThrows(() => ofCorp.responder.lift(BY), SbxError).code, "response.corp");
  }));

Deno.test("a lift that cannot be recorded opens nothing", () =>
  held({}, async ({ path }) => {
    const writes = open(path, {});
    writes.gate.report([finding()]);
    const gate = {
      observe: () => {
        throw new SbxError("ledger.unavailable", "the record cannot be written");
      },
      report: () => {},
    };
    const fails = open(path, {}, { gate } as unknown as Partial<HeldSession>);
    assertEquals(assertThrows(() => fails.responder.lift(BY), SbxError).code, "ledger.unavailable");
    assertEquals([await fails.decision(), await open(path, {}).decision()], ["block", "block"]);
    const refused = () => liftStill(path, "dev", {}, gate.observe);
    assertEquals(assertThrows(refused, SbxError).code, "ledger.unavailable");
    assertEquals(await open(path, {}).decision(), "block");
  }));

Deno.test("a hold that finds no room on the disk blocks also after a restart", () =>
  held({ profile: { rule: { "exec-nc": ["pause"] } } }, async ({ path, gate, responder, decision }) => {
    // A folder of that name cannot be written, as a file on a full disk.
    await Deno.mkdir(`${path}.new`);
    gate.report([finding({ rule_id: "exec-nc", severity: "low" })]);
    assertEquals([await decision(), responder.isStill], ["block", true]);
    assertEquals(await open(path, {}).decision(), "block");
    await Deno.remove(`${path}.new`);
    await eventually("it is written when there is room", () => open(path, {}).responder.isStill);
    const again = open(path, {}).responder;
    assertEquals(assertThrows(() => again.requireFree(), SbxError).code, "vm.held");
  }));

Deno.test("a finding's pause waits for the copy and the resume before it, and wins over the ones after", () =>
  held({ profile: { rule: { "exec-nc": ["pause"] } } }, async ({ path }) => {
    const orders = new Orders();
    const states: string[] = [];
    const order = (name: string, to: string, work: () => unknown = () => {}) =>
      orders.next(async () => {
        await work();
        await settle();
        states.push(`${name}: ${to}`);
      }).catch(({ code }) => states.push(`${name}: ${code}`));
    const { gate, responder } = open(path, { profile: { rule: { "exec-nc": ["pause"] } } }, {
      machine: { pause: () => order("hold", "Paused").then(() => {}), suspend: () => Promise.reject() },
    });
    const fork = order("copy", "Running", () => responder.requireFree());
    const resume = order("resume", "Running", () => responder.requireMoving());
    await settle();
    gate.report([finding({ rule_id: "exec-nc", severity: "low" })]);
    await Promise.all([fork, resume]);
    const late = [
      order("late copy", "Running", () => responder.requireFree()),
      order("late resume", "Running", () => responder.requireMoving()),
    ];
    await Promise.all(late);
    assertEquals(states, [
      "copy: Running",
      "resume: vm.held",
      "hold: Paused",
      "late copy: vm.held",
      "late resume: vm.held",
    ]);
  }));
