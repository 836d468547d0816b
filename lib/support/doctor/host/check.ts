/** Checks of this machine: whether VMs can run here, and the commands that fix it. */
import { asSbxError } from "../../../base/error/mod.ts";
import type { Home } from "../../../base/home/mod.ts";
import type { CheckState } from "../checks.ts";
import { type HostSystem, PROBE_MS } from "./system.ts";

export { PROBE_MS } from "./system.ts";

/** Result of a probe. */
export interface Outcome {
  /** `skipped`: nothing to mend, but something is not as it could be */
  state: CheckState;
  /** one line */
  detail: string;
  /** one command that mends a failure */
  remedy?: string;
  /** fixes it without risk; returns the change, in words */
  fix?: () => Promise<string>;
}

/** One check of this machine. */
export interface HostProbe {
  id: string;
  title: string;
  run(home: Home, system: HostSystem): Outcome | Promise<Outcome>;
  /** longest run in `ms`, where a look takes longer */
  within?: number;
}

/** Result of one check. */
export interface HostCheck {
  id: string;
  title: string;
  state: CheckState;
  detail: string;
  remedy?: string;
  /** `sbx doctor --fix` mends it */
  fixable?: true;
}

/** Report of `sbx doctor --json`. */
export interface HostReport {
  schema: "sbx.host-doctor.v1";
  ok: boolean;
  checks: HostCheck[];
  /** the changes made by `--fix`, in words */
  fixed: string[];
}

export const ok = (detail: string): Outcome => ({ state: "ok", detail });
export const note = (detail: string): Outcome => ({ state: "skipped", detail });
export const failed = (detail: string, remedy: string, fix?: Outcome["fix"]): Outcome => ({
  state: "failed",
  detail,
  remedy,
  ...(fix && { fix }),
});

/** The outcome of an error: its first line, and its hint as the remedy. */
export function failure(error: unknown, remedy: string): Outcome {
  const { message, hint } = asSbxError(error, "the check");
  return failed(message.split("\n")[0], hint ?? remedy);
}

/** Runs a probe with its deadline. Never throws. */
export async function runProbe(
  probe: HostProbe,
  home: Home,
  system: HostSystem,
): Promise<HostCheck & Pick<Outcome, "fix">> {
  const { id, title, within = PROBE_MS } = probe;
  const late = Promise.withResolvers<Outcome>();
  const timer = setTimeout(
    () => late.resolve(failed(`no answer within ${within / 1000} s`, "sbx debug --json")),
    within,
  );
  try {
    const look = Promise.resolve().then(() => probe.run(home, system))
      .catch((error) => failure(error, "sbx debug --json"));
    const { fix, ...outcome } = await Promise.race([look, late.promise]);
    return { id, title, ...outcome, ...(fix && { fixable: true, fix }) };
  } finally {
    clearTimeout(timer);
  }
}
