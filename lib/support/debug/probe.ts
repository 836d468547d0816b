/** Probes of files that may be missing, huge, unreadable or on a file system that hangs. None throws. */
import { statfs } from "node:fs/promises";
import type { DebugReport } from "../../client/api/mod.ts";
import { blake3File } from "../../base/hash/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";

type RuntimeFile = DebugReport["runtime"]["service_pid_file"];
type Disk = DebugReport["disk"]["home"];
type HostBinary = DebugReport["host_binaries"][string];
type Log = DebugReport["logs"][number];

/** Longest probe, in `ms` (docs/design/contracts/11-debug-report.md §11). */
const PROBE_MS = timeLimit(2000);
/**
 * Most bytes of a log's end: five logs have less than 256 KiB (docs/design/contracts/11-debug-report.md §11).
 */
export const LOG_TAIL = 48 * 1024;
/** Longest content of a runtime file that is shown, in `bytes`. */
const CONTENT_MAX = 64;

/** Result of a probe, or a substitute when it fails or takes too long. */
export async function within<T>(probe: Promise<T>, substitute: T, ms = PROBE_MS): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<T>((resolve) => timer = setTimeout(() => resolve(substitute), ms));
  try {
    return await Promise.race([probe.catch(() => substitute), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A file of the run folder. @param isSecret its content is never read */
export async function runtimeFile(path: string, { isSecret = false } = {}): Promise<RuntimeFile> {
  const none: RuntimeFile = { path, exists: false, size_bytes: 0, contents: null, error: null };
  const look = async (): Promise<RuntimeFile> => {
    let found = none;
    try {
      const { isFile, size } = await Deno.stat(path);
      found = { ...none, exists: true, size_bytes: size };
      const isShown = isFile && !isSecret && size <= CONTENT_MAX;
      return isShown ? { ...found, contents: (await Deno.readTextFile(path)).trim() } : found;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return none;
      return { ...found, error: error instanceof Error ? error.name : "unknown" };
    }
  };
  return await within(look(), { ...none, error: "TimedOut" });
}

export async function diskOf(path: string): Promise<Disk> {
  const none = { path, exists: false, total_bytes: 0, available_bytes: 0 };
  const look = async () => {
    const { bavail, blocks, bsize } = await statfs(path);
    return { path, exists: true, total_bytes: blocks * bsize, available_bytes: bavail * bsize };
  };
  return await within(look(), none);
}

/** Files of programs by name. A file of several names, such as that of all roles, is hashed once. */
export async function binariesOf(
  files: readonly (readonly [name: string, path: string | undefined])[],
): Promise<Record<string, HostBinary>> {
  const hashes = new Map<string, Promise<string>>();
  const hashOnce = async (path: string) => {
    const real = await Deno.realPath(path);
    const hash = hashes.get(real) ?? hashOf(real);
    hashes.set(real, hash);
    return await hash;
  };
  const found = files.map(async ([name, path]) => [name, await binaryOf(path, hashOnce)] as const);
  return Object.fromEntries(await Promise.all(found));
}

async function binaryOf(
  path: string | undefined,
  hashOnce: (path: string) => Promise<string>,
): Promise<HostBinary> {
  const none = {
    path: path ?? "",
    exists: false,
    size_bytes: 0,
    mode_octal: "",
    executable: false,
    hash: "",
  };
  if (path === undefined) return none;
  const look = async () => {
    const { size, mode } = await Deno.stat(path);
    const bits = (mode ?? 0) & 0o7777;
    return {
      path,
      exists: true,
      size_bytes: size,
      mode_octal: bits.toString(8).padStart(4, "0"),
      executable: (bits & 0o111) !== 0,
      hash: await hashOnce(path),
    };
  };
  return await within(look(), none, 2 * PROBE_MS);
}

/** BLAKE3 of a file; empty where it cannot be read in time. */
export async function hashOf(path: string): Promise<string> {
  return await within(blake3File(path).then(({ hash }) => hash), "");
}

/** The end of a log, not redacted. */
export interface LogTail extends Log {
  text: string;
  /** why a log that is there cannot be read */
  problem?: string;
}

/** The end of a log as whole lines. */
export async function logTail(name: string, path: string, max = LOG_TAIL): Promise<LogTail> {
  const none = { name, path, exists: false, size_bytes: 0, truncated: false, tail: [], text: "" };
  const unreadable = (why: string): LogTail => ({ ...none, problem: `${path} cannot be read: ${why}` });
  const look = async (): Promise<LogTail> => {
    // A named pipe would wait for its writer.
    if (!(await Deno.stat(path)).isFile) return unreadable("it is not a file");
    using file = await Deno.open(path);
    const { size } = await file.stat();
    const start = Math.max(0, size - max);
    await file.seek(start, Deno.SeekMode.Start);
    const bytes = new Uint8Array(Math.min(size, max));
    let filled = 0;
    while (filled < bytes.length) {
      const read = await file.read(bytes.subarray(filled));
      if (read === null) break;
      filled += read;
    }
    const whole = new TextDecoder().decode(bytes.subarray(0, filled));
    const text = start > 0 ? whole.slice(whole.indexOf("\n") + 1) : whole;
    return { ...none, exists: true, size_bytes: size, truncated: start > 0, text };
  };
  const found = look().catch((error) => {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return none;
    return unreadable(error instanceof Deno.errors.PermissionDenied ? "permission denied" : "it fails");
  });
  return await within(found, unreadable("no answer in time"));
}
