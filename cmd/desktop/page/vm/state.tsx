import type { VmSummary } from "../../api/routes.ts";

/** The state of a VM. */
export function VmState({ vm: { status } }: { vm: Pick<VmSummary, "status"> }) {
  return <span class={`pill state ${status}`}>{status}</span>;
}
