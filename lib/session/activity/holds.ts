/**
 * Programs of a guest that wait for the rules before they run or open files
 * (docs/design/contracts/07-guest-wire.md §7, "Activity").
 */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { NamedPaths } from "../../event/mod.ts";
import type { Channel } from "../../base/wire/mod.ts";
import type { ActivityFrame, ActivityOrder, FileProbe } from "../../machine/guest/mod.ts";
import type { SessionGate } from "../gate/mod.ts";
import { type Decision, type Draft, guestLine } from "../../policy/mod.ts";
import { execDraft, fileDraft, guestProgram, held, type KnownProcesses } from "./draft.ts";

type Permission = Extract<ActivityFrame, { t: "Permission" }>;
type Program = Extract<Permission, { kind: "exec" }>;
type File = Extract<Permission, { kind: "open" }>;
type Answer = Extract<ActivityOrder, { t: "Answer" }>;
type Decided = Pick<Answer, "allow" | "always" | "text">;
type Deciding = Pick<SessionGate, "preview" | "decide" | "refuse" | "guestRules">;
type Sender = Pick<Channel, "send">;

/**
 * A file whose name in the guest cannot be found out is one that rules may mean
 * (docs/design/contracts/07-guest-wire.md §7, "Activity").
 */
const HIDDEN = {
  id: "guard-mount",
  reason:
    "rules restrict files, and this one was opened by a mount or an overlay that does not say which one it is",
};

/** Uses of a file for which a program may open it. */
const HELD = ["read", "write"] as const;
/** Most answers that are kept for a guest that is away (docs/design/contracts/14-limits.md §14). */
const KEPT_MAX = 4096;

/** Operations that a guest has to hold. */
export interface Wanted {
  /** programs, before they run */
  exec: boolean;
  /** programs that open files to read or to write them: any, none, or ones that pass one of these tests */
  read: boolean | FileProbe[];
  write: boolean | FileProbe[];
}

export interface HoldsOptions {
  /** classes of the profile */
  named(): NamedPaths;
  /** processes reported by the guest */
  processes: Pick<KnownProcesses, "get">;
  /** a program that a person was asked about runs. @param pid in the guest @param event_id of the question */
  started(pid: number, event_id: string): void;
  /** longest wait for a guest to hold programs, in `ms` */
  deadlineMs: number;
}

export class GuestHolds {
  readonly #gate: Deciding;
  readonly #options: HoldsOptions;
  #wanted: Wanted = { exec: false, read: false, write: false };
  #isHeld = false;
  /** orders that the guest has not confirmed */
  #ordered = 0;
  /** settles when the guest holds as wanted */
  #change = Promise.withResolvers<void>();
  #guest?: Sender;
  readonly #deciding = new Set<number>();
  /** answers that the guest has not got */
  readonly #kept = new Map<number, Answer>();

  constructor(gate: Deciding, options: HoldsOptions) {
    this.#gate = gate;
    this.#options = options;
  }

  /** The rules have changed: they restrict programs or files, or do not. */
  want(wanted: Wanted): void {
    if (!isAny(wanted) && !isAny(this.#wanted)) return;
    this.#wanted = wanted;
    if (!isAny(wanted)) this.#settle();
    if (this.#guest) this.#order(this.#guest);
  }

  /** Settles when the guest holds its programs, if it has to. @throws {SbxError} `guest.failed` */
  async ready(): Promise<void> {
    if (!isAny(this.#wanted) || this.#isHeld) return;
    const { deadlineMs } = this.#options;
    const late = Promise.withResolvers<never>();
    const timer = backgroundTimeout(() =>
      late.reject(
        new SbxError(
          "guest.failed",
          `rules restrict programs or files, and the VM does not hold its programs for them after ${
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

  /** The guest's report begins. After an absence, it may still hold programs and wait for its answers. */
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

  /** The guest confirms its orders. */
  confirm({ exec, open }: { exec: boolean; open: boolean }): void {
    if (--this.#ordered > 0) return;
    this.#isHeld = exec === this.#wanted.exec && open === holdsFiles(this.#wanted);
    if (this.#isHeld) this.#settle();
  }

  take(frame: Permission): void {
    const kept = this.#kept.get(frame.id);
    if (kept) return this.#answer(kept);
    if (this.#deciding.has(frame.id)) return;
    this.#deciding.add(frame.id);
    this.#decide(frame)
      .catch((error) => ({ allow: false, text: refusalFor(error, frame) }))
      .then((decided) => {
        this.#deciding.delete(frame.id);
        this.#answer({ t: "Answer", id: frame.id, ...decided });
      });
  }

  #decide(frame: Permission): Promise<Decided> {
    return frame.kind === "exec" ? this.#decideProgram(frame) : this.#decideFile(frame);
  }

  async #decideProgram(frame: Program): Promise<Decided> {
    const { uid, opened, truncated, hidden } = frame;
    const draft = held(execDraft(guestProgram(frame), {
      uid: String(uid),
      ...opened !== undefined && { opened },
      ...truncated && { truncated: "true" },
    }));
    if (hidden) return { allow: false, text: lineOf(this.#gate.refuse(draft, HIDDEN)) };
    const unknown = truncated && this.#gate.guestRules.needsArguments(this.#gate.preview(draft).event);
    if (unknown) {
      const reason = `rule "${unknown.id}" reads arguments, and not all of this program's could be read`;
      return { allow: false, text: lineOf(this.#gate.refuse(draft, { id: "guard-arguments", reason })) };
    }
    const { allow, text, event_id } = await this.#decideDraft(
      draft,
      "a rule rewrites this program, which another program of the VM starts: sbx can rewrite only programs it starts itself",
    );
    if (!allow) return { allow, text };
    if (event_id === undefined) {
      return { allow, ...this.#gate.guestRules.decidesByFile("process.exec") && { always: true } };
    }
    this.#options.started(frame.pid, event_id);
    return { allow };
  }

  async #decideFile(frame: File): Promise<Decided> {
    const program = guestProgram(frame);
    const known = this.#options.processes.get(frame.pid);
    const isSame = known?.process.command === program.process.command;
    const draftOf = (operation: File["operations"][number]) =>
      held(
        fileDraft({ operation, path: frame.path, byte_count: 0 }, {}, {
          named: this.#options.named(),
          program: isSame ? known : program,
        }),
      );
    if (frame.hidden) {
      return { allow: false, text: lineOf(this.#gate.refuse(draftOf(frame.operations[0]), HIDDEN)) };
    }
    for (const operation of frame.operations) {
      const { allow, text } = await this.#decideDraft(
        draftOf(operation),
        "a rule rewrites an action on this file: file actions can be blocked or asked about, not rewritten",
      );
      if (!allow) return { allow, text };
    }
    const always = this.#gate.guestRules.decidesByFile("file.activity") &&
      HELD.every((operation) => this.#gate.preview(draftOf(operation)).allowed);
    return { allow: true, ...always && { always } };
  }

  /**
   * @param cannotRewrite why a rewrite blocks it
   * @returns `event_id` of a decision on record; other allowed operations are recorded as they happen
   */
  async #decideDraft(draft: Draft, cannotRewrite: string): Promise<Decided & { event_id?: string }> {
    const { allowed, decision } = this.#gate.preview(draft);
    if (decision.rewrites.length > 0) {
      const refused = this.#gate.refuse(draft, { id: "guard-rewrite", reason: cannotRewrite });
      return { allow: false, text: lineOf(refused) };
    }
    if (allowed) return { allow: true };
    const passage = await this.#gate.decide(draft);
    if (!passage.allowed) return { allow: false, text: lineOf(passage.decision) };
    return { allow: true, event_id: passage.event.common.event_id };
  }

  #settle(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  #order(guest: Sender): void {
    this.#isHeld = false;
    this.#ordered++;
    guest.send({ t: "Hold", ...this.#wanted } satisfies ActivityOrder).catch(
      ignore("a disconnected guest gets it with its next report"),
    );
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

/** An operation that cannot be decided on or recorded does not happen. */
function refusalFor(error: unknown, { kind }: Permission): string {
  log.error((error as Error).message);
  return kind === "exec"
    ? "sbx: this program cannot be recorded, so it does not run"
    : "sbx: this file cannot be opened, since that cannot be recorded";
}

function isAny(wanted: Wanted): boolean {
  return wanted.exec || holdsFiles(wanted);
}

function holdsFiles({ read, write }: Wanted): boolean {
  return read !== false || write !== false;
}
