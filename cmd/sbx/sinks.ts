import type { SinkStanding } from "../../lib/client/api/mod.ts";
import { count } from "../../lib/base/text/mod.ts";

/** One line for each sink of events: how many events wait, and how the last attempts went. */
export function sinkLines(sinks: readonly SinkStanding[], now = Date.now()): [string, string][] {
  return sinks.map(
    (
      {
        id,
        owner,
        form,
        url,
        lag,
        set_aside,
        oldest_unix_ms,
        last_success_unix_ms,
        last_failure,
        last_error,
      },
    ) => {
      const oldest = oldest_unix_ms === null ? "" : `, the oldest from ${age(oldest_unix_ms, now)}`;
      const parts = [
        `${id} (${form} ${url}${owner === "user" ? ", of your own" : ""})`,
        ...(set_aside ? [`never took ${count(set_aside, "event")}`] : []),
        lag === 0 ? "nothing waits" : `${count(lag, "event")} wait${oldest}`,
        last_success_unix_ms === null ? "none sent yet" : `last sent ${age(last_success_unix_ms, now)}`,
        ...(last_failure
          ? [`${last_error === null ? "failed" : "fails"} ${age(last_failure.at_unix_ms, now)}`]
          : []),
      ];
      return ["event sink", parts.join("; ") + (last_failure ? `: ${last_failure.message}` : "")];
    },
  );
}

const UNITS: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

function age(at: number, now: number): string {
  const [name, size] = UNITS.find(([, ms]) => now - at >= ms) ?? UNITS.at(-1)!;
  return `${Math.max(0, Math.floor((now - at) / size))} ${name} ago`;
}
