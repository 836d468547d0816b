import { timeLimit } from "../../../lib/base/time/mod.ts";
import {
  type CheckId,
  type CheckResult,
  type CheckState,
  DETAIL_MAX,
} from "../../../lib/support/doctor/mod.ts";

/** Result of a check; `undefined` where there is nothing to check. */
export type Seen = { state: CheckState; detail: string } | undefined;

export const ok = (detail: string): Seen => ({ state: "ok", detail });
export const failed = (detail: string): Seen => ({ state: "failed", detail });

/** Longest time of one check, in `ms`: an emulated guest starts a client in seconds. */
const CHECK_MS = timeLimit(20_000);

/** Runs one check; one that throws or takes too long has failed. */
export async function check(
  id: CheckId,
  run: () => Seen | Promise<Seen>,
): Promise<CheckResult | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<Seen>((resolve) => {
    timer = setTimeout(() => resolve(failed(`no answer in ${CHECK_MS / 1000} s`)), CHECK_MS);
  });
  const seen = await Promise.race([late, (async () => await run())()])
    .catch((error) => failed(error instanceof Error ? error.message : String(error)));
  clearTimeout(timer);
  return seen && { id, state: seen.state, detail: oneLine(seen.detail) };
}

/** Text of programs and errors on one line, without control characters. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, " ").trim().slice(0, DETAIL_MAX);
}

/** Destination of the checks: a reserved name (RFC 6761) and address (RFC 5737), refused by the host. */
export const PROBE_NAME = "sbx-doctor.invalid";
export const PROBE_ADDRESS = "192.0.2.1";
export const PROBE_PORT = 443;
