/**
 * Programs that wait for the host's answer before they run. The kernel asks about every file that is opened to be executed:
 * the program itself, the interpreter of a script, and the loader of libraries, which comes with the program. Two kinds are
 * not asked about: what the host runs itself, which it has decided on, and what init starts.
 */
import { ExecPermission, type ExecQuestion } from "../../../ffi/libc/fanotify.ts";
import { identityOf } from "../../../ffi/libc/inode.ts";
import { writeLine } from "../../../ffi/libc/line.ts";
import { sharesMemory } from "../../../ffi/libc/process.ts";
import type { ActivityFrame, ActivityOrder } from "../../../lib/guest/wire/mod.ts";
import { interpreterOf, isLoader } from "./executable.ts";
import { cwdOf } from "./proc.ts";
import { ExecCall, stateOf } from "./thread.ts";

/** Time between two looks for file systems that were mounted meanwhile, in `ms`. */
const MOUNTS_MS = 1000;
/** Most threads whose last answer is remembered. */
const ANSWERED_MAX = 4096;
/** Time in which a shell tries a program that was refused under its other paths, in `ms`. */
const RETRY_MS = 1000;
/** Most programs that are known to be allowed always. */
const ALWAYS_MAX = 4096;
/** Refuses memory that can be executed without a file system, which the kernel does not ask about (Linux 6.3). */
const MEMFD = "/proc/sys/vm/memfd_noexec";
/** What init runs in the guest: the programs of sbx. */
const RUNTIME = "/usr/bin/deno";

type Permission = Extract<ActivityFrame, { t: "Permission" }>;

/** A file that a thread wants to execute. */
interface Asked {
  question: ExecQuestion;
  /** what tells its call from the thread's next one */
  call: string;
  file?: string;
  /** path and file: what rules on executables decide by */
  key: string;
}

/** The last answer to a thread. */
interface Answered {
  call: string;
  /** of a file that may run: its interpreter, which is opened next */
  interpreter?: string;
  /** a file that may not run, and when that was said */
  refused?: { file?: string; at: number };
}

export interface HoldsOptions {
  /** process of sbx-pty-agent */
  agent(): number;
  /** process whose program a thread runs */
  programOf(thread: number): number;
  /** sends to the host; what waits for an answer is sent again to the next one */
  send(frame: ActivityFrame): void;
  /** programs cannot be held */
  lose(why: string): void;
}

export class Holds {
  readonly #options: HoldsOptions;
  #permission?: ExecPermission;
  #mounts = "";
  #timer?: ReturnType<typeof setInterval>;
  /** no id of a program that did this work before is good */
  #next = crypto.getRandomValues(new Uint32Array(1))[0];
  readonly #waiting = new Map<number, Asked & { frame: Permission }>();
  readonly #always = new Set<string>();
  readonly #answered = new Map<number, Answered>();
  readonly #init = identityOf("/proc/1/exe");

  constructor(options: HoldsOptions) {
    this.#options = options;
  }

  take(order: ActivityOrder): void {
    if (order.t === "Answer") return this.#answer(order);
    this.#always.clear();
    try {
      if (order.exec) this.#begin();
      else this.#end();
    } catch (error) {
      return this.#options.lose(`programs cannot be held: ${(error as Error).message}`);
    }
    this.#options.send({ t: "Holding", exec: order.exec });
    for (const { frame } of this.#waiting.values()) this.#options.send(frame);
  }

  #begin(): void {
    if (!this.#permission) {
      this.#permission = new ExecPermission();
      this.#follow(this.#permission);
    }
    this.#mounts = "";
    this.#watchMounts();
    this.#timer ??= setInterval(() => this.#watchMounts(), MOUNTS_MS);
    allowMemory(false);
  }

  #end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#permission?.unwatchAll();
    if (this.#permission) allowMemory(true);
  }

  /** Watches all file systems, also those that were mounted meanwhile. The kernel's own have no programs, and refuse. */
  #watchMounts(): void {
    const mounts = Deno.readTextFileSync("/proc/self/mountinfo");
    if (mounts === this.#mounts) return;
    this.#mounts = mounts;
    const seen = new Set<string>();
    for (const line of mounts.trimEnd().split("\n")) {
      const [, , device, , path] = line.split(" ");
      if (seen.has(device)) continue;
      seen.add(device);
      this.#permission!.watch(
        path.replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(parseInt(code, 8))),
      );
    }
  }

  async #follow(permission: ExecPermission): Promise<never> {
    while (true) {
      for (const question of await permission.next()) {
        try {
          this.#ask(question);
        } catch {
          // Its thread has ended, or cannot be read: nobody can say what it would run.
          permission.answer(question, false);
        }
      }
    }
  }

  #ask(question: ExecQuestion): void {
    const { thread, fd } = question;
    const permission = this.#permission!;
    if (sharesMemory(thread, this.#options.agent())) return permission.answer(question, true);
    const file = identityOf(fd);
    const call = new ExecCall(thread);
    const before = this.#answered.get(thread);
    const refused = before?.refused;
    if (refused && refused.file === file && performance.now() - refused.at < RETRY_MS) {
      return permission.answer(question, false);
    }
    this.#answered.delete(thread);
    const follows = before?.call === call.text && !refused;
    if (follows && isLoader(file)) return permission.answer(question, true);
    const opened = Deno.readLinkSync(`/proc/self/fd/${fd}`);
    if (identityOf(`/proc/${thread}/exe`) === this.#init && (opened === RUNTIME || isLoader(file))) {
      return permission.answer(question, true);
    }
    const isInterpreter = follows && file !== undefined && before.interpreter === file;
    const executable = isInterpreter ? opened : call.path() ?? opened;
    const asked: Asked = { question, call: call.text, file, key: `${executable}\n${file}` };
    if (this.#always.has(asked.key)) return this.#settle(asked, true);
    const { pid, ppid, uid } = stateOf(thread);
    const frame: Permission = {
      t: "Permission",
      id: this.#next++,
      kind: "exec",
      pid,
      ppid: this.#options.programOf(ppid),
      uid,
      executable,
      ...executable !== opened && { opened },
      ...call.argv(),
      cwd: cwdOf(thread),
    };
    this.#waiting.set(frame.id, { ...asked, frame });
    this.#options.send(frame);
  }

  #answer({ id, allow, always, text }: Extract<ActivityOrder, { t: "Answer" }>): void {
    const asked = this.#waiting.get(id);
    if (!asked) return;
    this.#waiting.delete(id);
    if (always && this.#always.size < ALWAYS_MAX) this.#always.add(asked.key);
    if (text !== undefined) tellProgram(asked.question.thread, text);
    this.#settle(asked, allow);
  }

  #settle({ question, call, file }: Asked, isAllowed: boolean): void {
    this.#answered.set(question.thread, {
      call,
      ...isAllowed
        ? { interpreter: interpreterOf(question.fd) }
        : { refused: { file, at: performance.now() } },
    });
    if (this.#answered.size > ANSWERED_MAX) this.#answered.delete(this.#answered.keys().next().value!);
    this.#permission!.answer(question, isAllowed);
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
