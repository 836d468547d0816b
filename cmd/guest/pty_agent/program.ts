/** Programs that the host runs in the guest. */
import { CallError } from "../../../ffi/libc/descriptor.ts";
import {
  COMMANDS,
  COMMANDS_PATH,
  ERROR_CHARACTERS,
  LAYER_PATH,
} from "../../../lib/machine/guest/wire/mod.ts";

/**
 * Time for the last output of a program's children once it has ended, in `ms`
 * (docs/design/contracts/07-guest-wire.md §7).
 */
export const LAST_OUTPUT_MS = 500;

/** Where output comes from; null at its end. */
export interface Source {
  read(into: Uint8Array<ArrayBuffer>): Promise<number | null>;
  close(): void;
  /** whether other processes can still write to it */
  isHeld?: boolean;
  /** Ends it after the bytes available now; later ones are dropped. */
  leave?(): void;
}

/** Where input goes. */
export interface Sink {
  /** Writes all of it. @throws {Error} it has no reader */
  write(from: Uint8Array<ArrayBuffer>): Promise<void>;
  close(): void;
}

/** A process, or the connection of a port, which has no pid. */
export interface RunningProgram {
  pid?: number;
  status: Promise<{ code: number }>;
  stdin?: Sink;
  stdout: Source;
  stderr: Source;
}

/** Shells that hosts ask for, and stand-ins, the nearest first: an image may have another shell, or none. */
const SHELLS: Record<string, readonly string[]> = {
  "/bin/bash": ["/bin/sh", `${LAYER_PATH}/bin/sh`],
  "/bin/sh": [`${LAYER_PATH}/bin/sh`],
};

/**
 * The command line that is run: a command of sbx by its path, and a shell that the guest lacks replaced by
 * one that it has, with the same options but `--login`, which only bash has.
 */
export function present([program, ...args]: string[]): string[] {
  if (COMMANDS.includes(program) && exists(`${COMMANDS_PATH}/${program}`)) {
    return [`${COMMANDS_PATH}/${program}`, ...args];
  }
  if (!Object.hasOwn(SHELLS, program) || exists(program)) return [program, ...args];
  const other = SHELLS[program].find(exists);
  return other === undefined
    ? [program, ...args]
    : [other, ...args.map((arg) => arg === "--login" ? "-l" : arg)];
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Describes the error of a program that could not be started, without terms of the system. */
export function describeFailure(cause: unknown): string {
  const { code } = cause instanceof CallError ? cause : { code: "" };
  if (code === "ENOENT" || code === "ENOTDIR") return "the program or its working directory was not found";
  if (code === "EACCES") return "the program is not executable";
  if (code === "E2BIG") return "its arguments and environment are too long";
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, ERROR_CHARACTERS);
}
