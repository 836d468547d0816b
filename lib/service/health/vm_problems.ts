import type { StatusReport } from "./status.ts";
import type { Supervisor } from "../vm/supervisor.ts";

/** The part of the debug report about VMs (docs/design/contracts/11-debug-report.md §11). */
export async function liveState(
  { supervisor }: { supervisor: Supervisor },
  status: StatusReport,
): Promise<
  { running: number; total: number; issues: string[]; defunct: { name: string; last_error: string }[] }
> {
  const { vms, issues } = await status.service();
  const defunct = supervisor.list().flatMap(({ name, status, last_error }) =>
    status === "Defunct" || last_error !== undefined ? [{ name, last_error: last_error ?? status }] : []
  );
  return { running: vms.running, total: vms.total, issues, defunct };
}
