/** Tables and hunts beside a receiver, each in a process of its own: none of them can take the receiver with it. */
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { log } from "../../../lib/base/log/mod.ts";
import { selfCommand } from "../../../lib/base/spawn/mod.ts";
import { pause } from "../../../lib/base/time/mod.ts";

/** Hours after which an unchanged pack is hunted again. */
const DUE_HOURS = 24;
const TEXT_MAX = 500;

export interface TableWork {
  dir: string;
  /** between two rounds */
  seconds: number;
  /** folder of packs that are hunted, new and changed ones at once */
  packs?: string;
  /** how far back those look */
  days?: string;
  signal: AbortSignal;
}

/** Writes tables until it is aborted. Another receiver on the store that is at it does the work of both. */
export async function keepTables({ dir, seconds, packs, days, signal }: TableWork): Promise<void> {
  let problem = "";
  while (!signal.aborted) {
    try {
      await run(["fleet", "tables", dir, "--json"], signal);
      if (packs !== undefined) {
        // A hunt takes no longer than the time between two tables, and goes on with the next.
        const bounds = ["--due", String(DUE_HOURS), "--max-seconds", String(seconds)];
        if (days !== undefined) bounds.push("--days", days);
        await run(["fleet", "hunt", dir, "--packs", packs, ...bounds, "--json"], signal, [0, 1, 3]);
      }
      problem = "";
    } catch (cause) {
      const { message } = asSbxError(cause, "writing tables");
      if (message !== problem && !signal.aborted) log.warn(message);
      problem = message;
    }
    await pause(seconds * 1000, signal);
  }
}

async function run(args: string[], signal: AbortSignal, good = [0]): Promise<void> {
  const { cmd, args: command } = selfCommand("admin", args);
  const { code, stdout, stderr } = await new Deno.Command(cmd, { args: command, stdin: "null", signal })
    .output();
  if (good.includes(code)) {
    const findings = args[1] === "hunt" ? JSON.parse(new TextDecoder().decode(stdout)).fresh.length : 0;
    if (findings > 0) log.warn(`${findings} new findings in the past of the fleet: findings/ of the store`);
    if (!isError(stdout)) return;
  }
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (/fleet\.(tables|hunt)\.busy|another program (writes|hunts)/.test(text)) return;
  // Before the first segment there is nothing to hunt in.
  if (text.includes("has no tables")) return;
  throw new SbxError(
    "fleet.tables.failed",
    `${args.slice(0, 2).join(" ")} failed: ${text.trim().slice(0, TEXT_MAX)}`,
  );
}

/** Tells an error from a report: both may end with the same exit code. */
function isError(stdout: Uint8Array): boolean {
  try {
    return typeof JSON.parse(new TextDecoder().decode(stdout)).error !== "undefined";
  } catch {
    return true;
  }
}
