/**
 * Commands of sbx that the service runs for clients without a terminal. Each is the command itself, in a
 * process of its own, so that its steps are written once (docs/design/contracts/02-http.md §2, "Tasks").
 */
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { plain } from "../base/print/mod.ts";
import type { Stage } from "../base/progress/mod.ts";
import { homeVariables, machineTrust, selfCommand } from "../base/spawn/mod.ts";
import type { Task } from "../client/api/mod.ts";
import type { Notices } from "./notice.ts";

/** Tasks at once, and ended ones that are kept (docs/design/contracts/14-limits.md). */
const RUNNING_MAX = 4, KEPT_MAX = 20;
/** Lines of progress that are kept, and `characters` of one. */
const LINES_MAX = 100, LINE_MAX = 400;
/** `characters` of a result or an error, and errors of one command: the last is its own. */
const RESULT_MAX = 1024 * 1024, ERRORS_MAX = 5;

/** A command to run. */
export interface TaskRequest {
  kind: Task["kind"];
  subject: string;
  /** words after `sbx` */
  args: string[];
  /** its standard input */
  input?: string;
}

interface Running {
  task: Task;
  /** not listed any more; its process is there until it has removed its work */
  isForgotten?: true;
  stop(): void;
}

export class Tasks {
  readonly #tasks = new Map<string, Running>();
  readonly #home: Pick<Home, "dir">;
  readonly #notices: Pick<Notices, "publish">;
  readonly #command: typeof selfCommand;

  /** @param command this program in one of its roles */
  constructor(home: Pick<Home, "dir">, notices: Pick<Notices, "publish">, command = selfCommand) {
    [this.#home, this.#notices, this.#command] = [home, notices, command];
  }

  /** The newest first. */
  list(): Task[] {
    return this.#all().filter(({ isForgotten }) => !isForgotten).map(({ task }) => task);
  }

  /** The newest first, with the ones that were forgotten before their end. */
  #all(): Running[] {
    return [...this.#tasks.values()].reverse();
  }

  /** The running task of a kind for a subject. */
  running(kind: Task["kind"], subject: string): Task | undefined {
    return this.list().find((task) =>
      task.kind === kind && task.subject === subject && task.state === "running"
    );
  }

  /** Starts a command. @throws {SbxError} `task.busy` (429) */
  start({ kind, subject, args, input }: TaskRequest): Task {
    // A cancelled one has its process until that has removed its work.
    if (this.#all().filter(({ task }) => task.ended_at === undefined).length >= RUNNING_MAX) {
      throw new SbxError("task.busy", `${RUNNING_MAX} tasks run already`, {
        hint: "wait until one has ended, or cancel it",
      });
    }
    const { cmd, args: words } = this.#command(args[0], args.slice(1));
    const child = new Deno.Command(cmd, {
      args: words,
      cwd: "/",
      // The work is for this machine, wherever the person's commands go.
      env: { ...homeVariables(), ...machineTrust(), SBX_HOME: this.#home.dir, SBX_HOST: "" },
      stdin: input === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const id = crypto.randomUUID().slice(0, 8);
    const task: Task = {
      id,
      kind,
      subject,
      state: "running",
      started_at: new Date().toISOString(),
      lines: [],
    };
    const stop = () => {
      if (task.state !== "running") return;
      task.state = "cancelled";
      try {
        // It removes its unfinished work.
        child.kill("SIGTERM");
      } catch {
        // It has ended; a program that it started still has its output.
      }
    };
    this.#tasks.set(id, { task, stop });
    this.#follow(task, child, input);
    this.#publish(task);
    return task;
  }

  /** Ends a task; forgets one that has ended, or was cancelled. @throws {SbxError} `task.not_found` (404) */
  cancel(id: string): Task {
    const found = this.#tasks.get(id);
    if (!found || found.isForgotten) {
      throw new SbxError("task.not_found", `there is no task "${id}"`, {
        hint: "tasks that ended long ago are forgotten",
      });
    }
    if (found.task.ended_at !== undefined) this.#tasks.delete(id);
    else if (found.task.state === "cancelled") found.isForgotten = true;
    else found.stop();
    return found.task;
  }

  close(): void {
    for (const { stop } of this.#tasks.values()) stop();
  }

  #publish(task: Task): void {
    if (this.#tasks.get(task.id)?.isForgotten) return;
    this.#notices.publish({ type: "task", payload: { ...task } });
  }

  async #follow(task: Task, child: Deno.ChildProcess, input: string | undefined): Promise<void> {
    const stages = task.kind === "image" || task.kind === "agent" ? await stagesOfBuild() : [];
    const errors: string[] = [];
    const [result, { success }] = await Promise.all([
      textOf(child.stdout),
      child.status,
      input === undefined ? undefined : send(child, input),
      eachLine(child.stderr, (line) => {
        const isError = line.startsWith("{");
        if (isError) return void errors.splice(0, errors.push(line) - ERRORS_MAX);
        note(task, line, stages);
        this.#publish(task);
      }),
    ]);
    task.ended_at = new Date().toISOString();
    if (task.state === "running") {
      task.state = success ? "done" : "failed";
      if (success) task.vm = vmOf(result);
      else task.error = errorOf(errors, task.lines.at(-1));
    }
    if (this.#tasks.get(task.id)?.isForgotten) return void this.#tasks.delete(task.id);
    const ended = this.list().filter(({ ended_at }) => ended_at !== undefined);
    for (const { id } of ended.slice(KEPT_MAX)) this.#tasks.delete(id);
    this.#publish(task);
  }
}

/** Parts of an image's build with their weights, as its progress names them. */
async function stagesOfBuild(): Promise<Stage[]> {
  const { BUILD_STAGES } = await import("../publish/image/mod.ts");
  return [...BUILD_STAGES, { name: "assets", weight: 2 }];
}

/** Adds a line of progress: `rootfs`, `rootfs: 25%`, or words. */
function note(task: Task, line: string, stages: readonly Stage[]): void {
  task.lines = [...task.lines, line].slice(-LINES_MAX);
  task.stage = line;
  const [, name, percent] = /^([a-z ]+?)(?:: (?:(\d+)%|.*))?$/.exec(line) ?? [];
  const at = stages.findIndex((stage) => stage.name === name);
  if (at < 0) return;
  const weigh = (some: readonly Stage[]) => some.reduce((sum, { weight }) => sum + weight, 0);
  const within = Number(percent ?? 0) / 100 * stages[at].weight;
  task.share = Math.max(task.share ?? 0, (weigh(stages.slice(0, at)) + within) / weigh(stages));
}

/** The error that a command with `--json` ends with. */
function errorOf(lines: string[], last: string | undefined): Task["error"] {
  for (const line of lines.toReversed()) {
    try {
      const { error, code, hint } = JSON.parse(line);
      if (typeof error !== "string") continue;
      return { error, code: String(code), ...(hint !== undefined && { hint: String(hint) }) };
    } catch {
      // Words that begin with a bracket.
    }
  }
  return { error: last ?? "the command ended without a result", code: "task.failed" };
}

function vmOf(result: string): string | undefined {
  try {
    const { vm } = JSON.parse(result);
    return typeof vm === "string" ? vm : undefined;
  } catch {
    return undefined;
  }
}

async function send(child: Deno.ChildProcess, input: string): Promise<void> {
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input)).then(() => writer.close()).catch(() => {
    // A command that ends early reports why.
  });
}

async function textOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    if (text.length < RESULT_MAX) text += part;
  }
  return text;
}

async function eachLine(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  take: (line: string) => void,
): Promise<void> {
  let rest = "";
  const pass = (line: string) => {
    const text = plain(line).trim();
    if (text !== "") take(text.startsWith("{") ? text : text.slice(0, LINE_MAX));
  };
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + part).split("\n");
    rest = lines.pop()!.slice(-RESULT_MAX);
    lines.forEach(pass);
  }
  pass(rest);
}
