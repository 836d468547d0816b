/**
 * Programs and files that wait for the host's answer before they run or are opened. The agent's own are not
 * asked about: the host has decided on them.
 */
import { type Access, FilePermission, type FileQuestion, type Scope } from "../../../ffi/libc/fanotify.ts";
import { PolledFiles } from "../../../ffi/libc/poll.ts";
import { sharesMemory, writeLine } from "../../../ffi/libc/process.ts";
import type { NamedPaths } from "../../../lib/event/mod.ts";
import type { ActivityFrame, ActivityOrder } from "../../../lib/machine/guest/wire/mod.ts";
import type { Mount } from "../../../lib/machine/guest/mounts/mod.ts";
import { mountsOfAll, Places, watchedMounts } from "./mounts.ts";
import { type Held, HeldFiles, HeldPrograms, type Permission } from "./held.ts";

const ACCESSES = ["exec", "open"] as const;
/** Longest time between two searches for mounts in other namespaces, in `ms`. */
const MOUNTS_MS = 1000;
/**
 * Refuses memory that can be executed without a file system, which the kernel does not ask about (Linux 6.3).
 */
const MEMFD = "/proc/sys/vm/memfd_noexec";

interface Keeper {
  /** number of the open group of fanotify(7) */
  group: number;
  /** settles when the keeper reads it no more */
  leave(): Promise<void>;
}

interface HoldsOptions {
  /** holder of the kernel's questions; undefined where the kernel asks nothing */
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
  readonly #places = new Places();
  readonly #programs: HeldPrograms;
  readonly #files: HeldFiles;
  #permission?: FilePermission;
  /** paths of file systems that are watched whole, by their numbers */
  readonly #mounted: Record<Access, Map<string, string>> = { exec: new Map(), open: new Map() };
  #changes?: PolledFiles;
  /** file systems whose files are held when opened: the same ones whose files are reported */
  readonly #watched = watchedMounts({});
  #wanted: Record<Access, boolean> = { exec: false, open: false };
  #isFollowingMounts = false;
  /** no id of a program that did this work before is good */
  #next = crypto.getRandomValues(new Uint32Array(1))[0];
  readonly #waiting = new Map<number, Held & { question: FileQuestion; frame: Permission }>();

  constructor(options: HoldsOptions) {
    this.#options = options;
    this.#programs = new HeldPrograms(this.#places, options.programOf);
    this.#files = new HeldFiles(
      this.#places,
      options.programOf,
      (question) => this.#permission!.ignore(question),
    );
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
      this.#places.find();
      allowMemory(!exec);
      this.#wanted = { exec, open };
      this.#release(ACCESSES.filter((access) => !this.#wanted[access]));
      if (open) { for (const path of this.#watched) this.#watch(path, "open"); }
      this.#watchMounted();
      this.#followMounts();
    } catch (error) {
      return this.#options.lose(`programs and files cannot be held: ${(error as Error).message}`);
    }
    this.#options.send({ t: "Holding", exec, open });
    for (const { frame } of this.#waiting.values()) this.#options.send(frame);
  }

  /** Activates the classes of a profile. */
  #use(paths: NamedPaths): void {
    this.#places.find();
    this.#files.use(paths);
    for (const path of watchedMounts(paths)) {
      this.#watched.add(path);
      this.#places.add(path);
    }
  }

  /** Removes the watches of `accesses`, also a killed predecessor's; forgets all watched mounts. */
  #release(accesses: Access[]): void {
    const mounts = accesses.length > 0 ? [...mountsOfAll()] : [];
    for (const access of accesses) {
      for (const { mount, path } of mounts) this.#permission?.unwatch(path, access, this.#scopeOf(mount));
      for (const path of [...this.#watched, ...this.#mounted[access].values()]) {
        this.#permission?.unwatch(path, access);
      }
      for (const path of this.#places.layers) this.#permission?.unwatch(path, access, "mount");
    }
    for (const access of ACCESSES) this.#mounted[access].clear();
  }

  /** Watches new mounts: in this program's namespace at once, in others within `MOUNTS_MS`. */
  async #followMounts(): Promise<void> {
    if (this.#isFollowingMounts) return;
    this.#isFollowingMounts = true;
    this.#changes ??= new PolledFiles(["/proc/self/mountinfo"], "change");
    while (this.#wanted.exec || this.#wanted.open) {
      await this.#changes.readable(MOUNTS_MS);
      this.#watchMounted();
    }
    this.#isFollowingMounts = false;
  }

  /**
   * Watches mounts in every namespace: all for programs; for files, the guest's overlays and mounts of the
   * layers of the root. The kernel's own mounts have no programs, and refuse.
   */
  #watchMounted(): void {
    const mounts = [...mountsOfAll()];
    for (const access of ACCESSES) {
      if (!this.#wanted[access]) continue;
      for (const path of this.#places.layers) this.#permission!.watch(path, access, "mount");
      for (const { mount, path } of mounts) {
        if (access === "exec" || this.#places.hides(mount) || this.#places.isOfLayer(mount)) {
          this.#watchOnce(mount, path, access);
        }
      }
    }
  }

  #watchOnce(mount: Mount, path: string, access: Access): void {
    const scope = this.#scopeOf(mount);
    const whole = this.#mounted[access];
    // Numbers of mounts are used again.
    if (scope === "filesystem" && whole.has(mount.device)) return;
    this.#permission!.watch(path, access, scope);
    if (scope === "filesystem") whole.set(mount.device, path);
  }

  #scopeOf(mount: Mount): Scope {
    return this.#places.isOfLayer(mount) ? "mount" : "filesystem";
  }

  #watch(path: string, access: Access): void {
    if (!this.#permission!.watch(path, access)) throw new Error(`the kernel does not watch ${path}`);
  }

  /** Keeps the watches of the predecessor, until it is known whether they are wanted. */
  async #takeOver(): Promise<FilePermission | undefined> {
    const { keeper } = this.#options;
    if (!keeper) return undefined;
    // Its library is loaded while the keeper still answers: this program must not wait for itself.
    const permission = new FilePermission(keeper.group);
    await keeper.leave();
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
      // Its thread has ended, or cannot be read, so its operation is unknown.
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
    if (text !== undefined) writeToUser(held.question.thread, text);
    held.settle(allow, always);
    this.#permission!.answer(held.question, allow);
  }
}

/** Reports to a program's user why it does not run, if its errors go to a terminal or a pipe. */
function writeToUser(thread: number, text: string): void {
  try {
    writeLine(`/proc/${thread}/fd/2`, text);
  } catch {
    // It has none, or has ended.
  }
}

function allowMemory(isAllowed: boolean): void {
  try {
    Deno.writeTextFileSync(MEMFD, isAllowed ? "0" : "2");
  } catch {
    // An older kernel has no such switch (docs/concepts/activity.md, "What it is worth").
  }
}

/** @param arg number of the group, negative where the kernel has none */
export function keeperOf(arg = "-1"): Keeper | undefined {
  const group = Number(arg);
  if (group < 0) return undefined;
  return {
    group,
    async leave() {
      Deno.kill(Deno.ppid, "SIGUSR1");
      // It writes nothing: the end is its answer.
      await Deno.stdin.read(new Uint8Array(1));
    },
  };
}
