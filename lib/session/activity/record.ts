/** Records a guest's reports of its programs and of their operations on files. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundDelay, backgroundTimeout, timeLimit } from "../../base/time/mod.ts";
import type { Channel } from "../../base/wire/mod.ts";
import { type Finding, type NamedPaths, pathClass } from "../../event/mod.ts";
import type { ActivityOrder } from "../../machine/guest/mod.ts";
import { ActivityFrame, ActivityHello } from "../../machine/guest/schema.ts";
import type { SessionGate } from "../gate/mod.ts";
import {
  execDraft,
  exitDraft,
  fileDraft,
  foldDraft,
  guestProgram,
  isAgent,
  isOfSbx,
  KnownProcesses,
  reportDraft,
} from "./draft.ts";
import { GuestHolds } from "./holds.ts";
import { Fold, FOLD_MS } from "./fold.ts";
import { Looks } from "./looks.ts";
import { dirname } from "node:path";

/** Waits for a report, in `ms` (docs/design/contracts/14-limits.md §14). */
const TIMES = {
  /** longest, for it to begin: an emulated guest that boots cold is busy with other things */
  start: timeLimit(120_000),
  /** until a guest that ends is seen as ended: its report ends a moment before */
  grace: 1000,
  /** before it is asked for again; twice as long each time */
  retry: 1000,
  retryMax: 300_000,
};
/**
 * Longest time from the start of the host's program to its report, in `ms`: as long as for the report as a
 * whole, which begins with the first program. Later its pid may be another process.
 */
const HOST_MS = timeLimit(120_000);
/** Most programs of the host whose report is awaited; the oldest are forgotten. */
const HOSTS_MAX = 1024;
/** Gaps closer together than this are recorded as one, in `ms`. */
const GAP_MS = 1000;
/** Label of events at the beginning and end of the report. */
const LABEL = "activity";
/** Counted in place of programs that have no count of their own. */
const OTHER_PROGRAMS = "(other programs)";

type Recording = Pick<SessionGate, "observe" | "refuse" | "report" | "preview" | "decide" | "guestRules">;

/** Labels of the guest's report of a program that the host started. */
type HostProgram = {
  event_id: string;
  repository?: "bring" | "read";
};

/**
 * Records a guest's reports of its programs. They are testimony: root in the guest can end or invent them,
 * but no other program can report in its place, and its end does not go unnoticed.
 */
export class ActivityRecord {
  readonly #gate: Recording;
  readonly #listener: ActivityListener;
  readonly #fold = new Fold(() => OTHER_PROGRAMS);
  readonly #files: FileRecord;
  readonly #findings: ReportFindings;
  readonly #processes = new KnownProcesses();
  readonly holds: GuestHolds;
  readonly looks = new Looks();
  /** classes of the profile */
  #paths: NamedPaths = {};
  #guest?: Pick<Channel, "send">;
  #gapAt = -Infinity;
  /** events of the host's programs that the guest has just started, by pid */
  readonly #hosts = new Map<number, HostProgram & { at: number }>();
  #report?: Report;
  #problem?: string;
  #isFoldDue = false;
  readonly #times: typeof TIMES;

  constructor(gate: Recording, listener: ActivityListener, times: Partial<typeof TIMES> = {}) {
    this.#times = { ...TIMES, ...times };
    this.#gate = gate;
    const named = () => this.#paths;
    this.holds = new GuestHolds(gate, {
      named,
      processes: this.#processes,
      started: (pid, event_id) => this.hostStarted(pid, event_id),
      deadlineMs: this.#times.start,
    });
    this.#files = new FileRecord(gate, this.#processes, named);
    this.#findings = new ReportFindings((findings) => gate.report(findings));
    this.#listener = listener;
  }

  /**
   * Notes that a program of the host has become a process of the guest.
   *
   * @param event_id of its `process.exec`
   * @param repository label of that event
   */
  hostStarted(pid: number, event_id: string, repository?: HostProgram["repository"]): void {
    this.#hosts.delete(pid);
    this.#hosts.set(pid, { event_id, ...repository && { repository }, at: performance.now() });
    if (this.#hosts.size > HOSTS_MAX) this.#hosts.delete(this.#hosts.keys().next().value!);
  }

  /** Activates a profile's classes, for records and holds from now on. */
  usePaths(paths: NamedPaths): void {
    if (JSON.stringify(paths) === JSON.stringify(this.#paths)) return;
    this.#paths = paths;
    this.#tellPaths();
  }

  /** Keeps a guest reporting until it is gone, and records each gap. */
  async follow(link: ActivityLink): Promise<void> {
    if (!await link.booted().then(() => true, () => false)) return;
    const { start, grace, retry, retryMax } = this.#times;
    for (let pause = retry; !link.isOver; pause = Math.min(pause * 2, retryMax)) {
      const asked = performance.now();
      const report: Report = this.#report = {
        link,
        started: Promise.withResolvers<void>(),
        ended: Promise.withResolvers<string>(),
      };
      await link.askActivity().catch(ignore("the report does not begin, which is noticed below"));
      const late = backgroundDelay(start).then(() => "sbx-activity did not begin");
      const began = await Promise.race([report.started.promise, report.ended.promise, late]);
      const ended = began ?? await report.ended.promise;
      const { gap } = report;
      const isTold = gap !== undefined && performance.now() - gap.at < GAP_MS;
      const why = isTold ? gap.why : ended;
      await backgroundDelay(grace);
      if (link.isOver) return;
      if (performance.now() - asked > retryMax) pause = retry;
      if (!isTold && why !== this.#problem) this.#lost(why);
      this.#listener.onProblem(this.#problem = why);
      await backgroundDelay(pause);
    }
  }

  /** Serves a connection of the guest's port for reports, which any of its programs may open. */
  async serve(channel: Pick<Channel, "next" | "send">): Promise<void> {
    const first = await channel.next();
    if (first === null) return;
    const report = this.#report;
    const hello = ActivityHello.safeParse(first);
    if (!report || !hello.success || !report.link.admitsActivity(hello.data.key)) return this.#refuse();
    let why = "sbx-activity has ended";
    this.#guest = channel;
    this.#tellPaths();
    this.holds.begin(channel);
    try {
      for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
        this.#take(ActivityFrame.parse(frame), report);
      }
    } catch (error) {
      if (error instanceof SbxError) why = `it cannot be recorded: ${error.message}`;
      else if (!(error instanceof Deno.errors.ConnectionReset)) why = "sbx-activity broke the protocol";
    } finally {
      this.holds.end(channel);
      if (this.#guest === channel) this.#guest = undefined;
      this.#recordCounts();
      report.ended.resolve(why);
    }
  }

  /** @throws {SbxError} `ledger.unavailable` */
  #take(frame: ActivityFrame, report: Report): void {
    switch (frame.t) {
      case "Process":
        return this.#ran(frame);
      case "Started":
        if (report.began !== undefined) return;
        report.began = Date.now();
        if (!frame.files) this.looks.distrust();
        this.#gate.observe(reportDraft("exec", {
          [LABEL]: "begins",
          processes: String(frame.processes),
          ...!frame.files && { files: "unseen" },
        }));
        report.started.resolve();
        return this.#listener.onProblem(this.#problem = undefined);
      case "Exec":
        return this.#executed(frame, report.began ?? 0);
      case "Exit":
        return this.#exited(frame);
      case "File":
        return this.#changed(frame);
      case "Listen":
        return this.#listener.onListen(frame.port);
      case "Holding":
        return this.holds.confirm(frame);
      case "Permission":
        return this.holds.take(frame);
      case "Gap":
        report.gap = { why: frame.why, at: performance.now() };
        return this.#lost(frame.why);
    }
  }

  /** A process that ran before the report. It is recorded once, unless it is one of sbx. */
  #ran(frame: Extract<ActivityFrame, { t: "Process" }>): void {
    const { pid, ppid, uid, executable } = frame;
    const program = guestProgram(frame);
    // Reported before.
    if (this.#processes.get(pid)?.process.command === program.process.command) return;
    const host = this.#takeHost(pid);
    let event_id = host?.event_id;
    const isOwn = isOfSbx(program, this.#processes.get(ppid));
    if (!isOwn && this.#fold.admits(executable)) {
      const labels = { uid: String(uid), [LABEL]: "running", ...host };
      event_id = this.#gate.observe(execDraft(program, labels)).common.event_id;
    }
    this.#processes.set(pid, { ...program, event_id, isCounted: false, isOfSbx: isOwn });
  }

  /**
   * @param began when the report did, as unix `ms`: programs of sbx that were
   * started before are part of the boot
   */
  #executed(frame: Extract<ActivityFrame, { t: "Exec" }>, began: number): void {
    const program = guestProgram(frame);
    const { pid, ppid, uid, started_ms, truncated } = frame;
    if (this.#isOfLook(frame)) {
      this.#takeHost(pid);
      return this.#processes.set(pid, { ...program, isCounted: false, isLook: true });
    }
    if (started_ms < began && isOfSbx(program, this.#processes.get(ppid))) {
      return this.#processes.set(pid, { ...program, isCounted: false, isOfSbx: true });
    }
    const isCounted = !this.#fold.admits(frame.executable);
    if (isCounted) {
      this.#recordCountsLater();
      return this.#processes.set(pid, { ...program, isCounted });
    }
    const { common } = this.#gate.observe(execDraft(program, {
      uid: String(uid),
      started_ms: String(started_ms),
      ...this.#takeHost(pid),
      ...truncated && { truncated: "true" },
    }));
    this.#processes.set(pid, { ...program, event_id: common.event_id, isCounted });
  }

  #exited({ pid, exit_code, signal, duration_ms }: Extract<ActivityFrame, { t: "Exit" }>): void {
    const known = this.#processes.end(pid);
    if (!known || known.isLook) return;
    if (known.isCounted) {
      if (exit_code > 0 || signal > 0) this.#fold.failed(known.process.executable);
      return;
    }
    // Only the loss of a part of sbx is of interest.
    if (known.isOfSbx && exit_code === 0) return;
    this.#gate.observe(exitDraft(known, exit_code, {
      ...known.event_id !== undefined && { event_id: known.event_id },
      ...signal > 0 && { signal: String(signal) },
      ...duration_ms !== undefined && { duration_ms: String(Math.round(duration_ms)) },
    }));
  }

  #isOfLook(frame: Extract<ActivityFrame, { t: "Exec" }>): boolean {
    // A pid is another process later.
    const parent = this.#processes.running(frame.ppid);
    if (!parent) return false;
    return this.looks.isPartOfLook(frame, { isAgent: isAgent(parent), isLook: parent.isLook });
  }

  #changed(frame: Extract<ActivityFrame, { t: "File" }>): void {
    const isOfLook = this.#processes.get(frame.pid)?.isLook === true;
    if (frame.operation !== "read") this.looks.noteChange(frame);
    const isSecret = () => pathClass(frame.path, this.#paths) === "secret";
    if (isOfLook && this.looks.mayWriteUnrecorded(frame) && !isSecret()) return;
    if (!this.#files.take(frame)) this.#recordCountsLater();
  }

  /** The event of the host's program, or of one that was asked about, that has just become this process. */
  #takeHost(pid: number): HostProgram | undefined {
    const host = this.#hosts.get(pid);
    this.#hosts.delete(pid);
    if (!host || performance.now() - host.at >= HOST_MS) return undefined;
    const { at: _, ...labels } = host;
    return labels;
  }

  #tellPaths(): void {
    const order: ActivityOrder = { t: "Paths", paths: this.#paths };
    this.#guest?.send(order).catch(ignore("a disconnected guest gets them with its next report"));
  }

  #recordCountsLater(): void {
    if (this.#isFoldDue) return;
    this.#isFoldDue = true;
    backgroundTimeout(() => {
      this.#isFoldDue = false;
      this.#recordCounts();
    }, FOLD_MS);
  }

  #recordCounts(): void {
    this.#safely(() => {
      for (const [executable, { count, failed }] of this.#fold.take()) {
        this.#gate.observe(foldDraft(executable, { folded: String(count), failed: String(failed) }));
      }
      this.#files.recordCounts();
    });
  }

  /** Records that something is missing. */
  #lost(why: string): void {
    this.looks.distrust();
    const now = performance.now();
    if (now - this.#gapAt < GAP_MS) return;
    this.#gapAt = now;
    this.#safely(() => {
      const { common } = this.#gate.observe(reportDraft("exit", { [LABEL]: "gap", why }));
      this.#findings.add(
        "activity-gap",
        common.event_id,
        `what programs did is missing in the record: ${why}`,
      );
    });
  }

  /** Refuses a connection without the key. */
  #refuse(): void {
    this.#safely(() => {
      if (this.#findings.isRecent("activity-forged")) return;
      const { event_id } = this.#gate.refuse(reportDraft("exec", { [LABEL]: "forged" }), {
        id: "guard-activity",
        reason: "a program of the guest tried to report in the place of sbx-activity",
      });
      this.#findings.add(
        "activity-forged",
        event_id,
        "a program of the guest tried to forge the record of programs",
      );
    });
  }

  /** Events that cannot be recorded stop the session's events elsewhere. */
  #safely(record: () => void): void {
    try {
      record();
    } catch (error) {
      log.error((error as Error).message);
    }
  }
}

/**
 * Least time between two findings of a kind, in `ms`: a guest makes as many gaps and connections as it likes.
 */
const FINDING_MS = 60_000;
/** Most characters of a finding, which may repeat a guest's reason. */
const TITLE_MAX = 250;

/** Findings about the report of a guest, each kind once in a while. */
export class ReportFindings {
  readonly #report: (findings: readonly Finding[]) => void;
  readonly #found = new Map<string, number>();

  constructor(report: (findings: readonly Finding[]) => void) {
    this.#report = report;
  }

  isRecent(rule_id: string): boolean {
    return performance.now() - (this.#found.get(rule_id) ?? -Infinity) < FINDING_MS;
  }

  add(rule_id: string, event_id: string, title: string): void {
    if (this.isRecent(rule_id)) return;
    this.#found.set(rule_id, performance.now());
    this.#report([{
      finding_id: `finding-${event_id}-${rule_id}`,
      event_id,
      rule_id,
      title: title.slice(0, TITLE_MAX),
      pack_id: "sbx.builtin",
      severity: "high",
      confidence: "high",
      tags: ["activity"],
    }]);
  }
}

// Parts of a session that the report of a guest needs.

/** Host end of the guest that reports. */
export interface ActivityLink {
  /** settles when the guest has booted; rejects when it is lost */
  booted(): Promise<unknown>;
  /** gives the guest a new key for its report */
  askActivity(): Promise<void>;
  /** whether it is the last key; it is good once */
  admitsActivity(key: string): boolean;
  /** the guest has ended, or was left for a while */
  readonly isOver: boolean;
}

/** Parts of the session that follow the report. */
interface ActivityListener {
  /** @param why nothing is reported; `undefined` once it is */
  onProblem(why?: string): void;
  /** a program of the guest listens on a port */
  onListen(port: number): void;
}

/** A report that was asked for. */
interface Report {
  /** when it began, as unix `ms` */
  began?: number;
  link: ActivityLink;
  started: PromiseWithResolvers<void>;
  /** resolves with the reason for its end */
  ended: PromiseWithResolvers<string>;
  /** the last gap it reported, after which it may end */
  gap?: { why: string; at: number };
}

type FileFrame = Extract<ActivityFrame, { t: "File" }>;
type Operation = FileFrame["operation"];

/** Stands for the folders without a count of their own. */
const ANYWHERE = "/";

/** Records operations of guest programs on files. Very many are counted by folder instead. */
class FileRecord {
  readonly #gate: Pick<SessionGate, "observe">;
  readonly #processes: Pick<KnownProcesses, "get">;
  /** classes of the profile */
  readonly #named: () => NamedPaths;
  readonly #folders = new Fold((name) => nameOf(operationOf(name), ANYWHERE));
  /** by path: no flood of other files hides operations on a secret */
  readonly #secrets = new Fold((name) => nameOf(operationOf(name), ANYWHERE));

  constructor(
    gate: Pick<SessionGate, "observe">,
    processes: Pick<KnownProcesses, "get">,
    named: () => NamedPaths,
  ) {
    this.#gate = gate;
    this.#named = named;
    this.#processes = processes;
  }

  /** @returns false when it was counted @throws {SbxError} `ledger.unavailable` */
  take({ operation, path, from, pid, bytes }: FileFrame): boolean {
    const named = this.#named();
    const isSecret = [path, from ?? ""].some((each) => pathClass(each, named) === "secret");
    const isAdmitted = isSecret
      ? this.#secrets.admits(nameOf(operation, path))
      : this.#folders.admits(nameOf(operation, dirname(path)));
    if (!isAdmitted) return false;
    const activity = { operation, path, byte_count: bytes ?? 0 };
    const labels = { ...from !== undefined && { from } };
    this.#gate.observe(fileDraft(activity, labels, { named, program: this.#processes.get(pid) }));
    return true;
  }

  recordCounts(): void {
    const named = this.#named();
    for (const [name, { count }] of [...this.#folders.take(), ...this.#secrets.take()]) {
      const path = name.slice(operationOf(name).length + 1);
      const activity = { operation: operationOf(name), path, byte_count: 0 };
      this.#gate.observe(fileDraft(activity, { folded: String(count) }, { named }));
    }
  }
}

function nameOf(operation: Operation, folder: string): string {
  return `${operation} ${folder}`;
}

function operationOf(name: string): Operation {
  return name.slice(0, name.indexOf(" ")) as Operation;
}
