/**
 * Answers to findings: holds a VM back, and keeps it held back over restarts until a person lifts it
 * (docs/design/contracts/06-detection.md §6, "Answers").
 */
import { dirname } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay, timeLimit } from "../base/time/mod.ts";
import {
  type Demand,
  demandsOf,
  type Hold,
  holdLine,
  isStill,
  requireLiftable,
  type ResponseAction,
  type ResponseTerms,
} from "../detection/response/mod.ts";
import { type Event, familyOf, type Finding } from "../event/mod.ts";
import type { AnsweredBy, Draft } from "../policy/mod.ts";
import type { EventHold, HeldBack, SessionGate } from "./gate/mod.ts";

/** Longest wait in `ms` for a snapshot before the other answers. */
const SNAPSHOT_MS = timeLimit(30_000);
/** `ms` in which a refused program can read why, before its open connections are cut. */
const CUT_MS = 250;
/** `ms` until a hold that found no room on the disk is written again. */
const SAVE_RETRY_MS = 1000;
/** Most notes of a hold (docs/design/contracts/14-limits.md §14). */
const NOTES_MAX = 16;

/** Guard that holds the network back. */
const GUARD_RESPONSE = "guard-response";
/** Rule of the findings that report an answer; no answer follows from them. */
const RESPONSE_RULE = "response";
/** Stands for the answer in the record, as sbx-port does for a port. */
const RESPONSE_PROGRAM = "sbx-response";

/** Families of events that stay in the VM, or only report. */
const INSIDE: ReadonlySet<string> = new Set(["file", "process", "credential"]);

/** The session that findings are answered in. */
export interface HeldSession {
  gate: Pick<SessionGate, "observe" | "report">;
  /** keeps the workspace. @throws {SbxError} */
  snapshot(): Promise<string>;
  /** ends every open connection of the guest */
  cut(): void;
  /** stops the machine; absent: no machine runs. Each throws where it is not possible. */
  machine?: { pause(): Promise<void>; suspend(): Promise<void> };
  /** reports the hold */
  show(hold: Hold | undefined): void;
}

/** Holds one VM back after findings. */
export class Responder implements EventHold {
  readonly #path: string;
  readonly #name: string;
  terms: ResponseTerms;
  #hold?: Hold;
  #session?: HeldSession;
  /** the answer that is being carried out; the next one waits for it */
  #acting: Promise<void> = Promise.resolve();
  /** findings of an answer itself are being reported */
  #isReporting = false;

  /** @param path of the hold; one that cannot be read blocks the network */
  constructor(path: string, name: string, terms: ResponseTerms) {
    this.#path = path;
    this.#name = name;
    this.terms = terms;
    this.#hold = readHoldSync(path, terms);
  }

  /** @param session from now on */
  attach(session: HeldSession): void {
    this.#session = session;
    if (this.#hold) session.show(this.#hold);
  }

  get hold(): Hold | undefined {
    return this.#hold;
  }

  /** The machine may not run. */
  get isStill(): boolean {
    return isStill(this.#hold);
  }

  /** The machine runs: one that was held back stands still again. */
  async started(): Promise<void> {
    if (this.isStill) await this.#stop("pause");
  }

  /** `vm.held`, while it is held back. */
  get refusal(): SbxError | undefined {
    return this.#hold && heldBack(this.#name, this.#hold);
  }

  /** @throws {SbxError} `vm.held`: a copy of it would be free */
  requireFree(): void {
    if (this.refusal) throw this.refusal;
  }

  /** @throws {SbxError} `vm.held`: it may not run until a person lifts that */
  requireMoving(): void {
    if (!this.isStill) return;
    throw new SbxError("vm.held", `"${this.#name}" stands still: ${holdLine(this.#name, this.#hold!)}`, {
      hint: `sbx lift ${this.#name}, then sbx resume ${this.#name}`,
    });
  }

  /** Answer to an event; `undefined` for one that is free to go on. */
  of(event: Pick<Event, "common">): HeldBack | undefined {
    if (!this.#hold || INSIDE.has(familyOf(event.common.event_type))) return undefined;
    const on = this.#isIn("block") ? "block" : this.#isIn("ask") ? "ask" : undefined;
    if (!on) return undefined;
    return {
      on,
      refusal: {
        id: GUARD_RESPONSE,
        reason: on === "block"
          ? "the network is blocked after a finding"
          : "the network asks after a finding",
        remedy: `look into it (sbx findings), then sbx lift ${this.#name}`,
      },
    };
  }

  /**
   * Answers findings with everything demanded that does not hold yet. Its network
   * is held back when this returns.
   */
  found(findings: readonly Finding[]): void {
    if (this.#isReporting) return;
    for (const finding of findings) this.#answer(finding);
  }

  #answer(finding: Finding): void {
    const demands = demandsOf(this.terms, finding).filter((demand) => this.#isNew(demand));
    if (demands.length === 0) return;
    const { finding_id, event_id, rule_id, severity, title } = finding;
    const cause = { finding_id, event_id, rule_id, severity, title };
    const names = new Set(demands.map(({ action }) => action));
    const { since_unix_ms = Date.now(), actions = [], notes = [] } = this.#hold ?? {};
    const wasBlocked = this.#isIn("block");
    this.#hold = {
      since_unix_ms,
      actions: [
        ...actions.filter(({ action }) => !names.has(action)),
        ...demands.map((demand) => ({ ...demand, cause })),
      ],
      notes,
    };
    this.#save();
    for (const demand of demands) this.#record(demand, cause);
    if (names.has("block") && !wasBlocked) {
      void backgroundDelay(CUT_MS).then(() => this.#isIn("block") && this.#session?.cut());
    }
    this.#acting = this.#acting.then(() => this.#act(names, demands, cause)).catch((error) =>
      log.error(error)
    );
  }

  #isIn(action: Demand["action"]): boolean {
    return this.#hold?.actions.some((each) => each.action === action) ?? false;
  }

  /** One that is in force already is new only where corp demands it too. */
  #isNew({ action, by }: Demand): boolean {
    const inForce = this.#hold?.actions.find((each) => each.action === action);
    return !inForce || by === "corp" && inForce.by !== "corp";
  }

  /** Carries out the answers that take time; an impossible one becomes a block. */
  async #act(names: ReadonlySet<string>, demands: readonly Demand[], cause: Cause): Promise<void> {
    const byOf = (action: string) => demands.find((each) => each.action === action)!.by;
    if (names.has("snapshot")) {
      try {
        this.#note(`snapshot ${await withinTime(this.#session?.snapshot())}`);
      } catch (error) {
        this.#instead("snapshot", error, byOf("snapshot"), cause);
      }
    }
    if (names.has("suspend")) await this.#stop("suspend");
    else if (names.has("pause")) await this.#stop("pause");
  }

  async #stop(how: "pause" | "suspend"): Promise<void> {
    if (!this.isStill) return;
    try {
      const { machine } = this.#session ?? {};
      if (!machine) throw new Error("there is no machine that could stand still");
      await machine[how]();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const instead = how === "suspend" ? "it is paused instead" : "only its network is blocked";
      this.#note(`${how} was not possible (${reason}): ${instead}`);
      if (how === "suspend") await this.#stop("pause");
    }
  }

  /** Blocks the network instead of an answer that was not possible. */
  #instead(action: string, error: unknown, by: Demand["by"], cause: Cause): void {
    if (!this.#hold) return;
    const reason = error instanceof Error ? error.message : String(error);
    const block = { action: "block" as const, by };
    if (this.#isNew(block)) {
      const actions = this.#hold.actions.filter((each) => each.action !== "block");
      this.#hold = { ...this.#hold, actions: [...actions, { ...block, cause }] };
      this.#record(block, cause);
      this.#session?.cut();
    }
    this.#note(`no ${action} was possible (${reason}): the network is blocked instead`);
  }

  #note(note: string): void {
    if (!this.#hold) return;
    const notes = [...this.#hold.notes, note.slice(0, NOTE_CHARACTERS)].slice(-NOTES_MAX);
    this.#hold = { ...this.#hold, notes };
    this.#save();
  }

  /**
   * Lifts the hold. A machine that stands still does so until it is resumed.
   *
   * @throws {SbxError} `response.none`, `response.corp`, `ledger.unavailable`
   */
  lift(by: AnsweredBy): void {
    const hold = this.#hold;
    if (!hold) throw nothingHeld(this.#name);
    requireLiftable(this.#name, hold, this.terms.corp);
    // First on record: a lift that cannot be recorded opens nothing. No answer follows from its own event.
    this.#isReporting = true;
    try {
      this.#session?.gate.observe(liftDraft(hold, by));
    } finally {
      this.#isReporting = false;
    }
    removeHold(this.#path);
    this.#hold = undefined;
    this.#session?.show(undefined);
  }

  /** At once, so that a process that is killed in the next moment leaves it. */
  #save(): void {
    try {
      writeHold(this.#path, this.#hold!);
    } catch (error) {
      log.error(asSbxError(error, `writing ${this.#path}`).message);
      void backgroundDelay(SAVE_RETRY_MS).then(() => this.#hold && this.#save());
    }
    this.#session?.show(this.#hold);
  }

  /**
   * The answer in the record, with the finding that caused it. It is in force also
   * where the record cannot be written.
   */
  #record({ action, by }: Demand, cause: Cause): void {
    this.#isReporting = true;
    try {
      const event = this.#session?.gate.observe(responseDraft(action, by, cause));
      if (!event) return;
      const { event_id } = event.common;
      this.#session!.gate.report([{
        finding_id: `finding-${event_id}-${RESPONSE_RULE}`,
        event_id,
        rule_id: RESPONSE_RULE,
        pack_id: "sbx.builtin",
        title: `answered ${cause.rule_id} with ${action}; sbx lift ${this.#name} lifts it`,
        severity: cause.severity,
        confidence: "high",
        tags: ["response"],
      }]);
    } catch (error) {
      log.error(asSbxError(error, "recording the answer to a finding").message);
    } finally {
      this.#isReporting = false;
    }
  }
}

type Cause = Hold["actions"][number]["cause"];

/** Most characters of a note. */
const NOTE_CHARACTERS = 300;

async function withinTime(work: Promise<string> | undefined): Promise<string> {
  if (!work) throw new Error("the VM has no snapshots");
  const late = backgroundDelay(SNAPSHOT_MS).then(() => {
    throw new Error(`it took longer than ${SNAPSHOT_MS / 1000} s`);
  });
  return await Promise.race([work, late]);
}

/** Refusal of an action that would free a VM which a finding holds back. */
export function heldBack(name: string, hold: Hold): SbxError {
  return new SbxError("vm.held", `"${name}": ${holdLine(name, hold)}`, {
    hint: `sbx findings ${name} shows them all; sbx lift ${name} lets it go on`,
  });
}

function nothingHeld(name: string): SbxError {
  return new SbxError("response.none", `no finding holds "${name}" back`, {
    hint: "sbx list shows the VMs that one holds back",
  });
}

function responseDraft(action: string, by: string, { finding_id, event_id, rule_id }: Cause): Draft {
  return draftOf(action, { response: action, by, finding_id, event_id, rule_id });
}

/** The event of a lift. */
export function liftDraft({ actions }: Hold, { user, client }: AnsweredBy): Draft {
  const { finding_id, event_id, rule_id } = actions[0].cause;
  return draftOf("lift", { response: "lift", user, client, finding_id, event_id, rule_id });
}

function draftOf(word: string, labels: Record<string, string>): Draft {
  const argv = [RESPONSE_PROGRAM, word];
  return {
    common: { event_type: "process.exec", source_engine: "process", actor: "host", labels },
    process: {
      activity: { executable: argv[0], command: argv.join(" "), argv, cwd: "/", operation: "exec" },
    },
  };
}

/**
 * Writes a hold, whole or not at all, and past the loss of the host's power. Without room on the disk it
 * leaves an empty file, which blocks.
 */
function writeHold(path: string, hold: Hold): void {
  // An entry without content takes no room.
  Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
  const work = `${path}.new`;
  {
    using file = Deno.openSync(work, { write: true, create: true, truncate: true, mode: 0o600 });
    const bytes = new TextEncoder().encode(JSON.stringify(hold) + "\n");
    for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
    file.syncSync();
  }
  Deno.renameSync(work, path);
  using folder = Deno.openSync(dirname(path));
  folder.syncSync();
}

function removeHold(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** The hold of a VM without a process; one that cannot be read blocks. */
export function readHoldSync(path: string, terms: ResponseTerms): Hold | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    return damagedHold(terms, (error as Error).message);
  }
  try {
    return checkHold(JSON.parse(text));
  } catch (error) {
    return damagedHold(terms, (error as Error).message);
  }
}

const ACTIONS: ReadonlySet<string> = new Set<ResponseAction>([
  "snapshot",
  "ask",
  "block",
  "pause",
  "suspend",
]);

/** The fields that are used, by hand: a VM's process loads no zod before it answers. */
function checkHold(value: Hold): Hold {
  const isGood = Number.isInteger(value.since_unix_ms) && Array.isArray(value.notes) &&
    Array.isArray(value.actions) && value.actions.length > 0 &&
    value.notes.every((note) => typeof note === "string") &&
    value.actions.every(({ action, by, cause }) =>
      // An unknown word would hold nothing back.
      ACTIONS.has(action) && ["corp", "profile", "default"].includes(by) &&
      [cause?.finding_id, cause?.event_id, cause?.rule_id, cause?.severity, cause?.title]
        .every((text) => typeof text === "string")
    );
  if (!isGood) throw new Error("it has another shape");
  return value;
}

function damagedHold({ corp }: ResponseTerms, reason: string): Hold {
  log.error(`what holds the VM back cannot be read, so its network is blocked: ${reason}`);
  const cause = {
    finding_id: "unknown",
    event_id: "unknown",
    rule_id: "unknown",
    severity: "critical" as const,
    title: "the file of an earlier answer is damaged",
  };
  return {
    since_unix_ms: Date.now(),
    actions: [{ action: "block", by: corp ? "corp" : "default", cause }],
    notes: [],
  };
}

/**
 * Lifts the hold of a VM without a process.
 *
 * @param record puts the lift on record, before it counts
 * @throws {SbxError} `response.none`, `response.corp`, `ledger.unavailable`
 */
export function liftStill(
  path: string,
  name: string,
  terms: ResponseTerms,
  record: (hold: Hold) => void,
): void {
  const hold = readHoldSync(path, terms);
  if (!hold) throw nothingHeld(name);
  requireLiftable(name, hold, terms.corp);
  record(hold);
  removeHold(path);
}
