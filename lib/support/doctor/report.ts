import { type Check, type CheckId, type CheckResult, CHECKS, type GuestReport } from "./checks.ts";

/** Difference of the clocks that counts as wrong, in `ms`. */
export const SKEW_MAX_MS = 2000;

/** A check as the host reports it. */
export interface DoctorCheck extends CheckResult {
  title: string;
  /** of a failed check */
  remedy?: string;
}

/** Report of one VM. */
export interface DoctorReport {
  schema: "sbx.doctor.v1";
  vm: string;
  ok: boolean;
  checks: DoctorCheck[];
}

/** Moments of the host's clock around the run of the guest's program, in unix `ms`. */
export interface RunTime {
  started: number;
  ended: number;
}

/**
 * Makes the host's report of a guest's: every check once and in order, titles and advice of the host, the
 * clock compared with the host's. A check that the guest left out has failed.
 */
export function doctorReport(vm: string, guest: GuestReport, time: RunTime): DoctorReport {
  const results = new Map(guest.checks.map((result) => [result.id, result]));
  const checks = (Object.entries(CHECKS) as [CheckId, Check][]).flatMap(
    ([id, { title, remedy, optional }]): DoctorCheck[] => {
      const found = results.get(id);
      if (!found && optional) return [];
      const result = found ?? { id, state: "failed", detail: "sbx-doctor of the VM did not report it" };
      const checked = id === "clock" ? withSkew(result, guest.unix_ms, time) : result;
      return [{ ...checked, title, ...(checked.state === "failed" && { remedy }) }];
    },
  );
  return { schema: "sbx.doctor.v1", vm, ok: checks.every(({ state }) => state !== "failed"), checks };
}

function withSkew(result: CheckResult, guestMs: number, { started, ended }: RunTime): CheckResult {
  const ahead = guestMs > ended ? guestMs - ended : Math.min(0, guestMs - started);
  if (Math.abs(ahead) <= SKEW_MAX_MS) return result;
  const seconds = (Math.abs(ahead) / 1000).toFixed(1);
  return {
    ...result,
    state: "failed",
    detail: `${seconds} s ${ahead > 0 ? "ahead of" : "behind"} this machine's clock`,
  };
}
