/**
 * Programs and files that wait for the host's answer before they run or are opened. Not asked about is what the agent does
 * itself: the host has decided on that.
 */
import { type Access, FilePermission, type FileQuestion } from "../../../ffi/libc/fanotify.ts";
import { writeLine } from "../../../ffi/libc/line.ts";
import { sharesMemory } from "../../../ffi/libc/process.ts";
import type { NamedPaths } from "../../../lib/event/mod.ts";
import type { ActivityFrame, ActivityOrder } from "../../../lib/guest/wire/mod.ts";
import { HeldFiles } from "./held_files.ts";
import { HeldPrograms } from "./held_programs.ts";
import { mountsIn, watchedMounts } from "./mounts.ts";

/** Time between two looks for file systems that were mounted meanwhile, in `ms`. */
const MOUNTS_MS = 1000;
/** Refuses memory that can be executed without a file system, which the kernel does not ask about (Linux 6.3). */
const MEMFD = "/proc/sys/vm/memfd_noexec";

type Permission = Extract<ActivityFrame, { t: "Permission" }>;
type Distributed<T> = T extends unknown ? Omit<T, "t" | "id"> : never;

/** What the host is asked, and what its answer does here. */
export interface Held {
  frame: Distributed<Permission>;
  settle(isAllowed: boolean, always: boolean): unknown;
}

export interface Keeper {
  /** number of the open group of fanotify(7) */
  group: number;
  /** settles when the keeper reads it no more */
  leave(): Promise<void>;
}

export interface HoldsOptions {
  /** what the kernel asks, as the keeper has it; undefined where the kernel asks nothing */
  keeper?: Keeper;
  /** process of sbx-pty-agent */
  agent(): number;
  /** process whose program a thread runs */
  programOf(thread: number): number;
  /** sends to the host; what waits for an answer is sent again to the next one */
  send(frame: ActivityFrame): void;
  /** nothing can be held */
  lose(why: string): void;
}

export class Holds {
  readonly #options: HoldsOptions;
  readonly #programs: HeldPrograms;
  readonly #files: HeldFiles;
  #permission?: FilePermission;
  #mounts = "";
  /** file systems whose files are held when they are opened: those whose files are told */
  readonly #watched = watchedMounts({});
  #timer?: ReturnType<typeof setInterval>;
  /** no id of a program that did this work before is good */
  #next = crypto.getRandomValues(new Uint32Array(1))[0];
  readonly #waiting = new Map<number, Held & { question: FileQuestion; frame: Permission }>();

  constructor(options: HoldsOptions) {
    this.#options = options;
    this.#programs = new HeldPrograms(options.programOf);
    this.#files = new HeldFiles(options.programOf, (question) => this.#permission!.ignore(question));
  }

  async take(order: ActivityOrder): Promise<void> {
    if (order.t === "Answer") return this.#answer(order);
    if (order.t === "Paths") return this.#use(order.paths);
    const { exec, read, write } = order;
    const open = read !== false || write !== false;
    try {
      this.#permission ??= await this.#takeOver();
      if (!this.#permission && (exec || open)) throw new Error("the kernel has no fanotify");
      this.#programs.forget();
      this.#files.hold({ read, write });
      this.#permission?.ignoreNone();
      if (exec) this.#holdPrograms();
      else this.#releasePrograms();
      for (const path of this.#watched) {
        if (open) this.#watch(path, "open");
        else this.#permission?.unwatch(path, "open");
      }
    } catch (error) {
      return this.#options.lose(`programs and files cannot be held: ${(error as Error).message}`);
    }
    this.#options.send({ t: "Holding", exec, open });
    for (const { frame } of this.#waiting.values()) this.#options.send(frame);
  }

  /** Puts classes of a profile in force. */
  #use(paths: NamedPaths): void {
    this.#files.use(paths);
    for (const path of watchedMounts(paths)) this.#watched.add(path);
  }

  #holdPrograms(): void {
    this.#mounts = "";
    this.#watchMounts();
    this.#timer ??= setInterval(() => this.#watchMounts(), MOUNTS_MS);
    allowMemory(false);
  }

  #releasePrograms(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const path of mountsIn(this.#mounts)) this.#permission?.unwatch(path, "exec");
    if (this.#mounts) allowMemory(true);
    this.#mounts = "";
  }

  /** Watches all file systems, also those that were mounted meanwhile. The kernel's own have no programs, and refuse. */
  #watchMounts(): void {
    const mounts = Deno.readTextFileSync("/proc/self/mountinfo");
    if (mounts === this.#mounts) return;
    this.#mounts = mounts;
    for (const path of mountsIn(mounts)) this.#permission!.watch(path, "exec");
  }

  #watch(path: string, access: Access): void {
    if (!this.#permission!.watch(path, access)) throw new Error(`the kernel does not watch ${path}`);
  }

  /** What was watched for the one before is watched still, until it is seen whether it should be. */
  async #takeOver(): Promise<FilePermission | undefined> {
    const { keeper } = this.#options;
    if (!keeper) return undefined;
    // Its library is loaded while the keeper still answers: this program must not wait for itself.
    const permission = new FilePermission(keeper.group);
    await keeper.leave();
    this.#mounts = Deno.readTextFileSync("/proc/self/mountinfo");
    this.#follow(permission);
    return permission;
  }

  async #follow(permission: FilePermission): Promise<void> {
    while (true) for (const question of await permission.next()) this.#decide(permission, question);
  }

  #decide(permission: FilePermission, question: FileQuestion): void {
    try {
      const answer = this.#ask(question);
      if (typeof answer === "boolean") return permission.answer(question, answer);
      const frame = { t: "Permission", id: this.#next++, ...answer.frame } as Permission;
      this.#waiting.set(frame.id, { ...answer, question, frame });
      this.#options.send(frame);
    } catch {
      // Its thread has ended, or cannot be read: nobody can say what it would do.
      permission.answer(question, false);
    }
  }

  #ask(question: FileQuestion): boolean | Held {
    if (sharesMemory(question.thread, this.#options.agent())) return true;
    return question.access === "exec" ? this.#programs.ask(question) : this.#files.ask(question);
  }

  #answer({ id, allow, always = false, text }: Extract<ActivityOrder, { t: "Answer" }>): void {
    const held = this.#waiting.get(id);
    if (!held) return;
    this.#waiting.delete(id);
    if (text !== undefined) tellProgram(held.question.thread, text);
    held.settle(allow, always);
    this.#permission!.answer(held.question, allow);
  }
}

/** Tells a program's user why it does not run, where its errors go to a terminal or a pipe: a file stays the program's. */
function tellProgram(thread: number, text: string): void {
  const path = `/proc/${thread}/fd/2`;
  try {
    if (/^(pipe:|\/dev\/(pts|tty|console))/.test(Deno.readLinkSync(path))) writeLine(path, text);
  } catch {
    // It has none, or has ended.
  }
}

function allowMemory(isAllowed: boolean): void {
  try {
    Deno.writeTextFileSync(MEMFD, isAllowed ? "0" : "2");
  } catch {
    // An older kernel has no such switch (docs/activity.md, "What it is worth").
  }
}
