/** The processes of a session as a tree, out of its recorded events. */
import { type DecidedEvent, type Event, type EventProcess, familyOf } from "./event.ts";
import type { EventFamily } from "./field.ts";

/** Longest time in `ms` by which a guest's report of a program may follow its first request. */
const LATE_MS = 5000;

/** A process: of an exec, or only named by an event of another family. */
export interface ProcessNode {
  /** its exec; absent: only other events name it */
  event_id?: string;
  /** absent: the host started it, and the guest did not say as what */
  pid?: number;
  ppid?: number;
  actor: "vm" | "host";
  executable: string;
  command: string;
  container?: EventProcess["container"];
  decision?: string;
  rule_id?: string;
  exit_code?: number;
  /** of the exec or the first event, unix `ms` */
  timestamp_unix_ms: number;
  /** other events of it, by family */
  events: Partial<Record<EventFamily, number>>;
  blocked_count: number;
  /** place of its parent in the list */
  parent?: number;
  /** 0: has no recorded parent */
  depth: number;
}

export interface ProcessTree {
  /** parents before their children, in the order in which they were recorded */
  processes: ProcessNode[];
  /** events that name no process, by family */
  unattributed: Partial<Record<EventFamily, number>>;
}

interface Node extends Omit<ProcessNode, "parent" | "depth"> {
  children: Node[];
  /** later reports of a guest may still be about it and its children */
  hasEnded: boolean;
  /** its exec was reported later, and has its events */
  isMoved: boolean;
}

/**
 * Joins events to processes by pid. A node gets its parent once, from the existing nodes, so a guest that
 * invents pids makes no cycle. A pid is another process after its exit, and after an exec with another
 * parent.
 */
export class ProcessTreeBuilder {
  readonly #roots: Node[] = [];
  readonly #byPid = new Map<number, Node>();
  readonly #byExec = new Map<string, Node>();
  readonly #unattributed: ProcessTree["unattributed"] = {};

  add(event: DecidedEvent): void {
    const { common } = event;
    if (common.event_type === "process.exec") return this.#addExec(event);
    if (common.event_type === "process.exit") return this.#addExit(event);
    const family = familyOf(common.event_type);
    const node = common.process && this.#nodeOf(event, common.process);
    const counts = node?.events ?? this.#unattributed;
    counts[family] = (counts[family] ?? 0) + 1;
    if (node && event.decision === "block") node.blocked_count++;
  }

  tree(): ProcessTree {
    const processes: ProcessNode[] = [];
    // No recursion: a guest decides how deep the tree is.
    const open = this.#roots.toReversed().map((node) => ({ node, parent: -1 }));
    for (let next = open.pop(); next; next = open.pop()) {
      const { node: { children, hasEnded: _, isMoved, ...node }, parent } = next;
      if (isMoved) continue;
      const place = processes.length;
      processes.push({
        ...node,
        depth: parent < 0 ? 0 : processes[parent].depth + 1,
        ...parent >= 0 && { parent },
      });
      for (const child of children.toReversed()) open.push({ node: child, parent: place });
    }
    return { processes, unattributed: this.#unattributed };
  }

  #addExec({ common, process, decision, rule_id }: DecidedEvent): void {
    const { executable, command } = process!.activity;
    const ordered = this.#byExec.get(common.labels.event_id);
    // The guest's report of a program that the host started.
    if (ordered && common.process && ordered.pid === undefined) return this.#meet(ordered, common.process);
    const node: Node = {
      ...shared(common),
      event_id: common.event_id,
      executable,
      command,
      ...decision !== undefined && { decision },
      ...rule_id !== undefined && { rule_id },
    };
    if (decision !== "block") this.#byExec.set(common.event_id, node);
    if (!common.process) return void this.#roots.push(node);
    const { pid, ppid } = common.process;
    this.#takeEarly(node, pid);
    const before = this.#byPid.get(pid);
    // The same process with another program, or a new process with the pid of an old one.
    if (before && before.ppid === ppid && !before.hasEnded) before.children.push(node);
    else this.#attach(node, ppid);
    if (decision !== "block" && pid > 0) this.#byPid.set(pid, node);
  }

  /** Gives a node the requests of its process that were recorded before its exec. */
  #takeEarly(node: Node, pid: number): void {
    const early = this.#byPid.get(pid);
    // One with children stays: they could be above the new node.
    if (!early || early.event_id || early.children.length > 0) return;
    if (node.timestamp_unix_ms - early.timestamp_unix_ms > LATE_MS) return;
    Object.assign(node, { events: early.events, blocked_count: early.blocked_count });
    early.isMoved = true;
    this.#byPid.delete(pid);
  }

  #meet(node: Node, { pid, ppid, container }: EventProcess): void {
    Object.assign(node, { pid, ppid, ...container && { container } });
    if (pid > 0) this.#byPid.set(pid, node);
  }

  #addExit({ common, process }: DecidedEvent): void {
    const pid = common.process?.pid;
    const node = this.#byExec.get(common.labels.event_id) ?? this.#byPid.get(pid ?? 0);
    if (!node) return;
    const { exit_code } = process!.activity;
    if (exit_code !== undefined) node.exit_code = exit_code;
    node.hasEnded = true;
  }

  #nodeOf({ common }: DecidedEvent, { pid, ppid, executable, command }: EventProcess): Node {
    const known = this.#byPid.get(pid);
    if (known && (known.event_id !== undefined || known.executable === executable)) return known;
    const node: Node = { ...shared(common), executable, command };
    this.#attach(node, ppid);
    if (pid > 0) this.#byPid.set(pid, node);
    return node;
  }

  #attach(node: Node, ppid: number): void {
    (this.#byPid.get(ppid)?.children ?? this.#roots).push(node);
  }
}

function shared({ actor, process, timestamp_unix_ms }: Event["common"]) {
  return {
    ...process && { pid: process.pid, ppid: process.ppid },
    ...process?.container && { container: process.container },
    actor,
    timestamp_unix_ms,
    events: {},
    blocked_count: 0,
    children: [],
    hasEnded: false,
    isMoved: false,
  };
}
