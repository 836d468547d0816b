/** Programs and jobs of a VM: a request, its streamed output, its exit code. */
import type {
  ExecRequest,
  ExecResult,
  Job,
  JobList,
  JobRequest,
  VmInfo,
} from "../../../lib/client/api/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { type ErrorBody, SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment, serverEvents } from "../../../lib/client/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { Spinner, usageError } from "../output.ts";
import { connect } from "../connect.ts";

/** Exit code of a failure of sbx itself; the program uses the others. */
export const SBX_FAILED = 125;
/** Exit code of a program that exceeded its timeout (docs/design/contracts/02-http.md §2). */
const TIMED_OUT = 124;
/** Longest timeout of the API, in `s` (lib/client/api, EXEC_TIMEOUT_MAX_SECS; a test compares them). */
export const TIMEOUT_MAX_SECS = 24 * 3600;
/** Most `bytes` of input: as base64 they fit into a request of 10 MiB. */
const STDIN_MAX = 7 * 1024 * 1024;

export const EXIT_NOTE =
  `The exit code is the program's; ${TIMED_OUT} after its timeout, 126 if it cannot run or policy blocked it, ${SBX_FAILED} if sbx failed.`;

export const PROGRAM_OPTIONS: Option[] = [
  { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the program" },
  {
    name: "timeout",
    value: "SECONDS",
    about: `kill the program after SECONDS; the exit code is ${TIMED_OUT}`,
  },
  {
    name: "cwd",
    value: "DIR",
    about: "working directory in the VM; default the image's, or /workspace",
    completes: "vm folders",
  },
  {
    name: "user",
    short: "u",
    value: "USER",
    about: "name or number of a user in the VM, and :GROUP; default the image's, or root",
  },
];

/** Of programs whose input is part of the request. */
export const INPUT_OPTION: Option = {
  name: "interactive",
  short: "i",
  about: `pass sbx's standard input to the program; at most ${
    STDIN_MAX / 1024 / 1024
  } MiB, read to its end first`,
};

/**
 * Builds the request from the options and `-- CMD…` or a shell line.
 *
 * @param line a shell line, or the program where the command line names none
 * @param readsInput the request contains standard input
 * @throws {SbxError} `usage.invalid`; `request.too_large`: standard input over the limit
 */
export async function programRequest(
  command: Command,
  args: Arguments,
  line: string | string[] | undefined,
  readsInput: boolean,
): Promise<ExecRequest> {
  if (line !== undefined && args.program !== undefined) {
    throw usageError(command, "-c and -- cannot be combined");
  }
  const program = line ?? args.program;
  if (program === undefined || program.length === 0) {
    throw usageError(command, "missing program", `sbx ${command.name} ${command.usage}`);
  }
  return {
    command: program,
    cwd: args.text("cwd"),
    user: args.text("user"),
    env: parseEnv(command, args.list("env")),
    timeout_secs: args.number("timeout", { min: 0.001, max: TIMEOUT_MAX_SECS, whole: false }),
    ...readsInput && { stdin: (await readStdin()).toBase64(), stdin_encoding: "base64" as const },
  };
}

/** Parses `K=V` pairs; `K` alone takes its value from the environment of sbx. */
export function parseEnv(command: Command, settings: string[]): Record<string, string> | undefined {
  if (settings.length === 0) return undefined;
  return Object.fromEntries(settings.map((setting) => {
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=([^]*))?$/.exec(setting) ?? [];
    if (name === undefined) {
      throw usageError(command, `invalid environment variable "${setting}"`, "write -e NAME=VALUE");
    }
    const content = value ?? Deno.env.get(name);
    if (content === undefined) {
      throw usageError(
        command,
        `${name} is not set in the environment of sbx`,
        `set it, or write -e ${name}=VALUE`,
      );
    }
    return [name, content];
  }));
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of Deno.stdin.readable) {
    chunks.push(chunk);
    size += chunk.length;
    if (size <= STDIN_MAX) continue;
    throw new SbxError("request.too_large", `standard input is larger than ${STDIN_MAX / 1024 / 1024} MiB`, {
      hint:
        "put it into a file in the VM's workspace: with sbx cp SRC DST, or in the folder shown by sbx info NAME",
    });
  }
  return new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer());
}

/** Payload of the `exit` event. */
export type Exit = Omit<ExecResult, "stdout" | "stderr">;

/** Handlers of events. */
export interface StreamHandlers {
  /** where standard error goes; absent: to sbx's own */
  stderr?: Parameters<typeof writeAll>[0];
  booted?(vm: VmInfo): void;
  events?(events: Record<string, unknown>[]): void;
}

/**
 * Copies a program's streamed output to stdout and stderr, byte for byte. The stream after the program's end
 * is read only with a handler of events: the service removes the VM of `sbx run` automatically.
 *
 * @returns its exit code
 * @throws {SbxError} the service's error; `process.gone`: the stream ended before the program
 */
export async function streamProgram(response: Response, handlers: StreamHandlers = {}): Promise<number> {
  const { stderr = Deno.stderr } = handlers;
  let exit: Exit | undefined;
  let spinner: Spinner | undefined;
  using _ = { [Symbol.dispose]: () => spinner?.[Symbol.dispose]() };
  for await (const { event, data } of serverEvents(response.body!)) {
    const value = JSON.parse(data);
    spinner?.[Symbol.dispose]();
    spinner = undefined;
    if (event === "stdout") await writeAll(Deno.stdout, Uint8Array.fromBase64(value.data));
    else if (event === "stderr") await writeAll(stderr, Uint8Array.fromBase64(value.data));
    else if (event === "exit") {
      exit = value;
      if (!handlers.events) break;
    } else if (event === "resuming") spinner = new Spinner(`resuming ${value.name}`);
    else if (event === "booted") handlers.booted?.(value);
    else if (event === "events") handlers.events?.(value.events);
    else if (event === "error") throw serverError(value);
  }
  if (exit !== undefined) return reportExit(exit);
  throw new SbxError("process.gone", "the connection was lost before the program ended", {
    hint: "sbx list shows whether the VM is still running",
  });
}

/**
 * Copies a program's output to standard error, on a terminal as text alone: standard output is
 * for the result of the command.
 *
 * @param see gets standard output too
 * @returns its exit code
 * @throws {SbxError} the service's error; `process.gone`: the stream ended before the program
 */
export async function streamAside(response: Response, see?: (text: string) => void): Promise<number> {
  const write = writerOf(Deno.stderr, false);
  const decoder = new TextDecoder();
  for await (const { event, data } of serverEvents(response.body!)) {
    const value = JSON.parse(data);
    if (event === "stdout" || event === "stderr") {
      const bytes = Uint8Array.fromBase64(value.data);
      await write(bytes);
      if (event === "stdout") see?.(decoder.decode(bytes, { stream: true }));
    } else if (event === "exit") return (value as Exit).exit_code;
    else if (event === "error") throw serverError(value);
  }
  throw new SbxError("process.gone", "the connection was lost before the program ended", {
    hint: "sbx list shows whether the VM is still running",
  });
}

/** Returns the program's exit code; notes truncation, limits and timeout on stderr. */
export function reportExit({ exit_code, truncated, limits_reached = [] }: Exit): number {
  for (const limit of limits_reached) note(`sbx: the program reached its limit ${limit}`);
  if (truncated) note("sbx: the output was truncated at 10 MiB");
  if (exit_code === TIMED_OUT) note("sbx: the program exceeded its timeout, or exited with 124 itself");
  return exit_code;
}

export function serverError({ error, code, hint }: ErrorBody): SbxError {
  return new SbxError(code, error, { hint });
}

/** Path of a job's routes. */
export function jobPath({ vm, id }: Pick<Job, "vm" | "id">): string {
  return `/vms/${segment(vm)}/jobs/${segment(id, "job")}`;
}

/** Finds a job in all VMs. @throws {SbxError} `job.not_found` */
export async function findJob(client: Client, id: string): Promise<Job> {
  const { jobs } = await client.json<JobList>("GET", "/jobs");
  const job = jobs.find((job) => job.id === id);
  if (job) return job;
  throw new SbxError("job.not_found", `no VM has a job "${id}"`, {
    hint: didYouMean(id, jobs.map((job) => job.id)) ?? "sbx jobs lists the jobs of all VMs",
  });
}

/** Number of the jobs that end with their VM, which its next start does not start; 0 for an unknown VM. */
export async function countRunningJobs(client: Client, vm: string): Promise<number> {
  const path = `/vms/${segment(vm)}/jobs`;
  const { jobs } = await client.json<JobList>("GET", path).catch(() => ({ jobs: [] }));
  return jobs.filter(({ state, service }) => state !== "Ended" && !service).length;
}

/** Starts a job and prints its id. @returns 0, or the exit code of a program that policy blocked */
export async function startDetached(vm: string, json: JobRequest, asJson: boolean): Promise<number> {
  const client = await connect();
  const job = await client.json<Job>("POST", `/vms/${segment(vm)}/jobs`, { json });
  if (asJson) await printJson(job);
  else if (job.state !== "Ended" || job.exit_code === 0) await print(job.id);
  if (job.state === "Ended" && job.exit_code !== 0) {
    if (!asJson) await streamLogs(client, job, { raw: false });
    return job.exit_code ?? 1;
  }
  if (job.state === "Waiting") note(`sbx: a person has to allow it first: sbx asks`);
  else if (!asJson && Deno.stdout.isTerminal()) note(`sbx jobs logs ${job.id} shows its output`);
  return 0;
}

/**
 * Copies a job's output to stdout and stderr, on a terminal without control sequences.
 *
 * @param options.raw copies byte for byte, even on a terminal
 * @returns the job, in its state afterwards
 */
export async function streamLogs(
  client: Client,
  job: Job,
  { tail, follow, raw }: { tail?: number; follow?: boolean; raw: boolean },
): Promise<Job> {
  const query = new URLSearchParams({
    ...tail !== undefined && { tail: `${tail}` },
    ...follow && { follow: "true" },
  });
  const response = await client.send("GET", `${jobPath(job)}/logs?${query}`, { accept: "text/event-stream" });
  const writers = { stdout: writerOf(Deno.stdout, raw), stderr: writerOf(Deno.stderr, raw) };
  for await (const { event, data } of serverEvents(response.body!)) {
    const value = JSON.parse(data);
    if (event === "stdout" || event === "stderr") await writers[event](Uint8Array.fromBase64(value.data));
    else if (event === "missing") note(`sbx: ${value.bytes} bytes of output were not kept`);
    else if (event === "error") throw serverError(value);
    else if (event === "job") return value;
  }
  throw new SbxError("process.gone", "the connection was lost before the end of the output", {
    hint: `sbx jobs logs ${job.id} shows it again`,
  });
}

/** Writes a program's output, on a terminal as text alone unless it is raw. */
export function writerOf(out: typeof Deno.stdout, raw: boolean): (bytes: Uint8Array) => Promise<void> {
  if (raw || !out.isTerminal()) return (bytes) => writeAll(out, bytes);
  const text = new LogText();
  return (bytes) => writeAll(out, new TextEncoder().encode(text.push(bytes)));
}

/** Control sequences and strings of ECMA-48, and other escapes. */
const ESCAPES =
  // deno-lint-ignore no-control-regex
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])/g;
/** Longest escape that is cut by the end of a piece, in characters. */
const ESCAPE_MAX = 4096;

/**
 * A job's output for a person's terminal: its text, without anything that moves the
 * cursor or changes the terminal.
 */
export class LogText {
  readonly #decoder = new TextDecoder();
  #rest = "";

  push(bytes: Uint8Array): string {
    const text = (this.#rest + this.#decoder.decode(bytes, { stream: true })).replace(ESCAPES, "");
    // The rest of an escape, or the line feed after a carriage return, arrives with the next piece.
    const escape = text.indexOf("\x1b");
    const isCut = escape >= 0 && text.length - escape <= ESCAPE_MAX;
    const end = isCut ? escape : text.endsWith("\r") ? text.length - 1 : text.length;
    this.#rest = text.slice(end);
    return plain(text.slice(0, end).replaceAll("\r\n", "\n").replaceAll("\r", "\n"), true);
  }
}
