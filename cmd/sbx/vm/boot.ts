import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { Spinner } from "../spinner.ts";

/** First and longest time between two checks, in `ms`: a VM that was started ahead is ready at once. */
const POLL_MS = 10;
const POLL_MAX_MS = 100;

/** Waits until a VM is running. @throws {SbxError} `vm.boot_failed`: the VM stopped or failed instead */
export async function waitUntilRunning(client: Client, { id, name }: VmSummary): Promise<void> {
  using _spinner = new Spinner(`booting ${name}`);
  for (let wait = POLL_MS;; wait = Math.min(wait * 1.5, POLL_MAX_MS)) {
    const { status, last_error } = await client.json<VmSummary>("GET", `/vms/${segment(id)}/status`);
    if (status === "Running") return;
    if (status !== "Booting") {
      throw new SbxError(
        "vm.boot_failed",
        `"${name}" did not boot: ${last_error ?? `its status is ${status}`}`,
        {
          hint: `sbx logs ${name} shows why; sbx delete ${name} removes it`,
        },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
