/** What `sbx run` and `sbx exec` have in common: a program's request, and its output as it comes. */
import type { ExecRequest, ExecResult, VmInfo } from "../../lib/api/vm.ts";
import { serverEvents } from "../../lib/client/mod.ts";
import type { ErrorBody } from "../../lib/base/error/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { numberOf, usage } from "./arguments.ts";
import type { Command, Given, Option } from "./command.ts";
import { note, writeAll } from "./output.ts";

/** Exit code when sbx itself fails; the program's own codes are everything else but this. */
export const SBX_FAILED = 125;
/** Exit code of a program that ran out of time (contracts.md §2). */
export const TIMED_OUT = 124;
/** Longest time that the API takes, in seconds (lib/api, EXEC_TIMEOUT_MAX_SECS; a test compares them). */
export const TIMEOUT_MAX_SECS = 24 * 3600;
/** Bytes of input that fit into a request of 10 MiB as base64. */
const STDIN_MAX = 7 * 1024 * 1024;

export const PROGRAM_OPTIONS: Option[] = [
  { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the program" },
  { name: "timeout", value: "SECONDS", about: `end it after so long, with exit code ${TIMED_OUT}` },
  { name: "cwd", value: "DIR", about: "folder in the VM to run it in" },
  {
    name: "interactive",
    short: "i",
    about: `give it sbx's own standard input, read to its end: at most ${STDIN_MAX / 1024 / 1024} MiB`,
  },
];

/** The request that the options and `-- CMD…` (or a shell line) make. */
export async function programRequest(command: Command, given: Given, line?: string): Promise<ExecRequest> {
  if (line !== undefined && given.program !== undefined) throw usage(command, "-c and -- exclude each other");
  const program = line ?? given.program;
  if (program === undefined || program.length === 0) {
    throw usage(command, "there is no program to run", `sbx ${command.name} ${command.usage}`);
  }
  return {
    command: program,
    cwd: given.text("cwd"),
    env: envOf(command, given.list("env")),
    timeout_secs: numberOf(given, "timeout", { min: 0.001, max: TIMEOUT_MAX_SECS, whole: false }),
    ...given.on("interactive") &&
      { stdin: (await readStdin()).toBase64(), stdin_encoding: "base64" as const },
  };
}

/** `K=V` pairs; `K` alone takes the value that sbx itself has. */
export function envOf(command: { name: string }, settings: string[]): Record<string, string> | undefined {
  if (settings.length === 0) return undefined;
  return Object.fromEntries(settings.map((setting) => {
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=([^]*))?$/.exec(setting) ?? [];
    if (name === undefined) {
      throw usage(command, `"${setting}" is no environment variable`, "write -e NAME=VALUE");
    }
    const taken = value ?? Deno.env.get(name);
    if (taken === undefined) throw usage(command, `${name} is not set here`, `write -e ${name}=VALUE`);
    return [name, taken];
  }));
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of Deno.stdin.readable) {
    chunks.push(chunk);
    size += chunk.length;
    if (size <= STDIN_MAX) continue;
    throw new SbxError("request.too_large", `standard input is over ${STDIN_MAX / 1024 / 1024} MiB`, {
      hint: "put it into a file of the VM's workspace (sbx cp, or the folder that sbx info shows)",
    });
  }
  return new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer());
}

/** How a program ended, of the `exit` event. */
export type Exit = Omit<ExecResult, "stdout" | "stderr">;

/** What to do with the events that are not output. */
export interface StreamHandlers {
  booted?(vm: VmInfo): void;
  events?(events: Record<string, unknown>[]): void;
}

/**
 * Copies a streamed program's output to stdout and stderr, byte for byte.
 *
 * @returns its exit code
 * @throws SbxError what the service says went wrong, or `process.gone` when the stream breaks off
 */
export async function streamProgram(response: Response, handlers: StreamHandlers = {}): Promise<number> {
  let exit: Exit | undefined;
  for await (const { event, data } of serverEvents(response.body!)) {
    const value = JSON.parse(data);
    if (event === "stdout") await writeAll(Deno.stdout, Uint8Array.fromBase64(value.data));
    else if (event === "stderr") await writeAll(Deno.stderr, Uint8Array.fromBase64(value.data));
    else if (event === "exit") exit = value;
    else if (event === "booted") handlers.booted?.(value);
    else if (event === "events") handlers.events?.(value.events);
    else if (event === "error") throw serverError(value);
  }
  if (exit !== undefined) return exitCode(exit);
  throw new SbxError("process.gone", "the connection ended before the program did", {
    hint: "sbx status and sbx list show what still runs",
  });
}

/** The program's exit code; says on stderr what the code alone does not. */
export function exitCode({ exit_code, truncated }: Exit): number {
  if (truncated) note("sbx: the output was over 10 MiB, and was cut there");
  if (exit_code === TIMED_OUT) note("sbx: the program ran out of time, or ended with 124 itself");
  return exit_code;
}

function serverError({ error, code, hint }: ErrorBody): SbxError {
  return new SbxError(code, error, { hint });
}
