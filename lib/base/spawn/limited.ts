/** A program that someone else controls. */
import { ignore, SbxError } from "../error/mod.ts";

/** Parts that are taken. */
export interface OutputLimits {
  /** most `bytes` of each stream */
  bytes: number;
  /** longest time, in `ms` */
  ms: number;
}

/**
 * Output of a program that someone else controls: it has no terminal, from which it could type for the person
 * who runs this one, and the wait ends even if a program that it started keeps its streams open.
 *
 * @throws {SbxError} `program.limit`
 */
export async function limitedOutput(
  program: string,
  options: Deno.CommandOptions,
  { bytes, ms }: OutputLimits,
): Promise<{ success: boolean; stdout: string; stderr: string }> {
  const child = new Deno.Command(program, {
    ...options,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    // A session of its own, which has no terminal.
    detached: true,
  }).spawn();
  const readers = [child.stdout, child.stderr].map((stream) => stream.getReader());
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new SbxError("program.limit", `it has not ended after ${Math.round(ms / 1000)} s`)),
    ms,
  );
  try {
    const [out, err] = readers.map((reader) => readText(reader, bytes));
    const all = Promise.all([child.status, out, err]);
    all.catch(ignore("it is thrown below, or time was over before"));
    const [{ success }, stdout, stderr] = await Promise.race([all, late.promise]);
    return { success, stdout, stderr };
  } catch (error) {
    for (const reader of readers) reader.cancel().catch(ignore("it has ended"));
    end(child.pid);
    child.unref();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Ends a program and the ones that it started in its session's first group. */
function end(pid: number): void {
  try {
    Deno.kill(-pid, "SIGTERM");
  } catch {
    // All have ended.
  }
}

async function readText(reader: ReadableStreamDefaultReader<Uint8Array>, max: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "", count = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    count += next.value.length;
    if (count > max) throw new SbxError("program.limit", `it printed more than ${max} bytes`);
    text += decoder.decode(next.value, { stream: true });
  }
  return text + decoder.decode();
}
