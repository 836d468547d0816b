import type { VmSummary } from "../../lib/api/vm.ts";
import { type Client, segment } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { Spinner } from "./spinner.ts";

const POLL_MS = 100;

/** Waits for a boot. @throws SbxError `vm.boot_failed` when it ends instead */
export async function untilRunning(client: Client, { id, name }: VmSummary): Promise<void> {
  using _spinner = new Spinner(`booting ${name}`);
  while (true) {
    const { status, last_error } = await client.json<VmSummary>("GET", `/vms/${segment(id)}/status`);
    if (status === "Running") return;
    if (status !== "Booting") {
      throw new SbxError("vm.boot_failed", `"${name}" did not boot: ${last_error ?? `it is ${status}`}`, {
        hint: `sbx logs ${name} shows why; sbx delete ${name} removes it`,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
