/** Programs of a guest that wait for the rules before they run (docs/contracts.md §7, "Activity"). */
import { SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { Channel } from "../../base/wire/mod.ts";
import type { ActivityFrame, ActivityOrder } from "../../guest/mod.ts";
import type { SessionGate } from "../../gate/mod.ts";
import { type Decision, guestLine } from "../../policy/mod.ts";
import { guestProgram, heldDraft } from "./draft.ts";

type Permission = Extract<ActivityFrame, { t: "Permission" }>;
type Answer = Extract<ActivityOrder, { t: "Answer" }>;
type Deciding = Pick<SessionGate, "preview" | "decide" | "refuse" | "guestRules">;
type Sender = Pick<Channel, "send">;

/** Most answers that are kept for a guest that is away (docs/contracts.md §14). */
const KEPT_MAX = 4096;

export interface HoldsOptions {
  /** a program that was asked about runs now, in a process of the guest. @param event_id of the question */
  started(pid: number, event_id: string): void;
  /** longest wait for a guest to hold programs, in `ms` */
  deadlineMs: number;
}

export class ProgramHolds {
  readonly #gate: Deciding;
  readonly #options: HoldsOptions;
  #isWanted = false;
  #isHeld = false;
  /** orders that the guest has not confirmed */
  #ordered = 0;
  /** settles when the guest does what is wanted */
  #change = Promise.withResolvers<void>();
  #guest?: Sender;
  readonly #deciding = new Set<number>();
  /** answers that the guest has not got */
  readonly #kept = new Map<number, Answer>();

  constructor(gate: Deciding, options: HoldsOptions) {
    this.#gate = gate;
    this.#options = options;
  }

  /** The rules have changed: they restrict programs, or do not. */
  want(isWanted: boolean): void {
    if (!isWanted && !this.#isWanted) return;
    this.#isWanted = isWanted;
    if (!isWanted) this.#settle();
    if (this.#guest) this.#order(this.#guest);
  }

  /** Settles when the guest holds its programs, if it has to. @throws {SbxError} `guest.failed` */
  async ready(): Promise<void> {
    if (!this.#isWanted || this.#isHeld) return;
    const { deadlineMs } = this.#options;
    const late = Promise.withResolvers<never>();
    const timer = backgroundTimeout(() =>
      late.reject(
        new SbxError(
          "guest.failed",
          `rules restrict programs, and the VM does not hold its programs for them after ${
            deadlineMs / 1000
          } s: none is started`,
          { hint: "sbx status shows the gap in its report; start the VM again" },
        ),
      ), deadlineMs);
    try {
      await Promise.race([this.#change.promise, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The guest reports. One that was away may hold programs still, and waits for its answers. */
  begin(guest: Sender): void {
    this.#guest = guest;
    this.#ordered = 0;
    this.#order(guest);
  }

  /** The guest reports no more. */
  end(guest: Sender): void {
    if (this.#guest !== guest) return;
    this.#guest = undefined;
    this.#isHeld = false;
  }

  /** The guest does what it was told. */
  confirm(exec: boolean): void {
    if (--this.#ordered > 0) return;
    this.#isHeld = exec;
    if (exec === this.#isWanted) this.#settle();
  }

  take(frame: Permission): void {
    const kept = this.#kept.get(frame.id);
    if (kept) return this.#answer(kept);
    if (this.#deciding.has(frame.id)) return;
    this.#deciding.add(frame.id);
    this.#decide(frame)
      .catch((error) => ({ allow: false, text: refusalFor(error) }))
      .then((decided) => {
        this.#deciding.delete(frame.id);
        this.#answer({ t: "Answer", id: frame.id, ...decided });
      });
  }

  async #decide(frame: Permission): Promise<Pick<Answer, "allow" | "always" | "text">> {
    const { uid, opened, truncated } = frame;
    const draft = heldDraft(guestProgram(frame), {
      uid: String(uid),
      ...opened !== undefined && { opened },
      ...truncated && { truncated: "true" },
    });
    const { allowed, decision } = this.#gate.preview(draft);
    if (decision.rewrites.length > 0) {
      const refused = this.#gate.refuse(draft, {
        id: "guard-rewrite",
        reason:
          "a rule rewrites this program, which another program of the VM starts: only those that sbx starts can be",
      });
      return { allow: false, text: lineOf(refused) };
    }
    // It is on record as a program that runs.
    if (allowed) return { allow: true, ...this.#gate.guestRules.decidesByFile && { always: true } };
    const passage = await this.#gate.decide(draft);
    if (!passage.allowed) return { allow: false, text: lineOf(passage.decision) };
    this.#options.started(frame.pid, passage.event.common.event_id);
    return { allow: true };
  }

  #settle(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  #order(guest: Sender): void {
    this.#isHeld = false;
    this.#ordered++;
    guest.send({ t: "Hold", exec: this.#isWanted } satisfies ActivityOrder).catch(() => {});
  }

  #answer(answer: Answer): void {
    this.#kept.delete(answer.id);
    const keep = () => {
      this.#kept.set(answer.id, answer);
      if (this.#kept.size > KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
    };
    if (this.#guest) this.#guest.send(answer).catch(keep);
    else keep();
  }
}

function lineOf(decision: Decision): string {
  return `sbx: ${guestLine(decision)}; sbx why ${decision.event_id} shows the record`;
}

/** A program on which nothing can be decided or recorded does not run. */
function refusalFor(error: unknown): string {
  log.error((error as Error).message);
  return "sbx: this program cannot be recorded, so it does not run";
}
