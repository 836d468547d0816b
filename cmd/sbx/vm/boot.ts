import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { Spinner } from "../spinner.ts";
import { note } from "../../../lib/base/print/mod.ts";

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

/** Runs the work a new VM was made for; if that fails, deletes the VM, which is empty, to free its name. */
export async function completeVm<T>(
  client: Client,
  { id, name }: { id: string; name: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isDeleted = await client.json("DELETE", `/vms/${segment(id)}/delete?force=true`).then(
      () => true,
      () => false,
    );
    if (isDeleted) note(`sbx: deleted "${name}" again, which got nothing`);
    throw error;
  }
}
