import { asSbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { pause } from "../../base/time/mod.ts";
import type { ClickHouseLoader, LoadedRows } from "./load.ts";

/** Interval between rounds in `ms`, and the longest wait while the server is away. */
const ROUND_MS = 1000;
const WAIT_MAX_MS = 60_000;
/** A round that found nothing may take one part of so many. */
const SHARE = 20;

/** Loads until aborted. A server that is away, full or not ready delays only its tables. */
export async function keepLoading(
  loader: ClickHouseLoader,
  signal: AbortSignal,
  onLoaded?: (rows: LoadedRows) => void,
): Promise<void> {
  let isPrepared = false;
  let wait = ROUND_MS;
  let problem = "";
  while (!signal.aborted) {
    const start = performance.now();
    try {
      if (!isPrepared) await loader.prepare();
      isPrepared = true;
      const rows = await loader.round();
      if (rows.segments > 0) onLoaded?.(rows);
      // While rows arrive the next round has work; otherwise looking for some must not take the machine.
      wait = rows.segments > 0 ? ROUND_MS : Math.max(ROUND_MS, (performance.now() - start) * SHARE);
      problem = "";
    } catch (cause) {
      const { message } = asSbxError(cause, "loading rows into ClickHouse");
      if (message !== problem) log.warn(`rows are not loaded yet: ${message}`);
      problem = message;
      wait = Math.min(wait * 2, WAIT_MAX_MS);
    }
    await pause(wait, signal);
  }
}
