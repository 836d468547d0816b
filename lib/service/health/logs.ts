import { join } from "node:path";
import type { LogsResult } from "../../client/api/mod.ts";
import type { SessionPaths } from "../../session/mod.ts";

/** `bytes` shown of each log's end. */
const TAIL_BYTES = 64 * 1024;

/** Reads the ends of a VM's logs. */
export async function readLogs({ logs: dir }: Pick<SessionPaths, "logs">): Promise<LogsResult> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  return { logs: await Promise.all(names.sort().map((name) => readTail(dir, name))) };
}

async function readTail(dir: string, name: string): Promise<LogsResult["logs"][number]> {
  using file = await Deno.open(join(dir, name));
  const { size } = await file.stat();
  const start = Math.max(0, size - TAIL_BYTES);
  await file.seek(start, Deno.SeekMode.Start);
  const text = await new Response(file.readable).text();
  return {
    name,
    size_bytes: size,
    truncated: start > 0,
    lines: text.split(/\r?\n/).filter((line) => line !== ""),
  };
}
