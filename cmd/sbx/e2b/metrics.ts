/** Use of a guest's processors, memory and disk, as E2B's client shows it. */
import { SbxError } from "../../../lib/base/error/mod.ts";

/** Prints two counts of processor time a moment apart, the number of processors, the memory and the disk. */
export const METRICS_SCRIPT = `head -n1 /proc/stat; sleep 0.2; head -n1 /proc/stat
grep -c ^processor /proc/cpuinfo
grep -E '^(MemTotal|MemAvailable|Cached):' /proc/meminfo
df -P -k / | tail -n1`;

const KIB = 1024;

/** @throws {SbxError} `guest.failed`: the guest printed something else */
export function parseMetrics(text: string, now = Date.now()) {
  const [before, after, count, ...rest] = text.trim().split("\n");
  const [first, second] = [before, after].map(cpuTimes);
  const total = second.total - first.total;
  const memory = new Map(
    rest.slice(0, -1).map((line) => {
      const [, name, kib] = /^(\w+): +(\d+) kB$/.exec(line) ?? [];
      return [name, Number(kib) * KIB];
    }),
  );
  const [, size, used] = /^\S+ +(\d+) +(\d+) /.exec(rest.at(-1) ?? "") ?? [];
  const metrics = {
    timestamp: new Date(now).toISOString(),
    timestampUnix: Math.floor(now / 1000),
    cpuCount: Number(count),
    cpuUsedPct: total <= 0 ? 0 : Math.round(1000 * (1 - (second.idle - first.idle) / total)) / 10,
    memTotal: memory.get("MemTotal") ?? NaN,
    memUsed: (memory.get("MemTotal") ?? NaN) - (memory.get("MemAvailable") ?? NaN),
    memCache: memory.get("Cached") ?? NaN,
    diskTotal: Number(size) * KIB,
    diskUsed: Number(used) * KIB,
  };
  const isWhole = Object.values(metrics).every((value) =>
    typeof value === "string" || Number.isFinite(value)
  );
  if (!isWhole) throw new SbxError("guest.failed", "the guest did not show its use of memory and disk");
  return metrics;
}

/** Ticks in all and idle, of the line "cpu" of /proc/stat. */
function cpuTimes(line = ""): { total: number; idle: number } {
  const ticks = line.trim().split(/ +/).slice(1, 9).map(Number);
  return { total: ticks.reduce((sum, each) => sum + each, 0), idle: (ticks[3] ?? NaN) + (ticks[4] ?? NaN) };
}
