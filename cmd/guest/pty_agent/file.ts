import { ignore } from "../../../lib/base/error/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import type { GuestMessage, HostMessage } from "../../../lib/machine/guest/wire/mod.ts";

type AwaitFile = Extract<HostMessage, { t: "AwaitFile" }>;

const POLL_MS = 20;
/** Longest wait, in `ms`: virtiofs caches attributes of a file for one second. */
const DEADLINE_MS = timeLimit(2500);

/**
 * Waits until a file written to the workspace by the host shows its new size here. The guest's kernel may
 * cache the old size for a second, and the next program must see the new content.
 */
export async function awaitFile(
  { id, path, size }: AwaitFile,
  send: (message: GuestMessage) => Promise<void>,
): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  let visible = false;
  while (!visible && performance.now() < deadline) {
    visible = (await Deno.stat(path).catch(() => null))?.size === size;
    if (!visible) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  await send({ t: "FileVisible", id, visible });
}

/**
 * Asks for a file of the workspace, whether or not it exists. Notices of pending requests got lost while the
 * machine was written down: the host finds those requests with the next notice.
 */
export function remindWorkspace(): void {
  Deno.lstat("/workspace/.sbx-reminder").catch(
    ignore("the request counts, whether or not the file is there"),
  );
}
