import { note } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";

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
