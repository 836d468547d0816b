import type { GuestMessage, HostMessage } from "../../../lib/guest/messages.ts";

type AwaitFile = Extract<HostMessage, { t: "AwaitFile" }>;

const POLL_MS = 20;
/** virtiofs forgets what it remembered of a file after a second; twice that is enough. */
const DEADLINE_MS = 2500;

/**
 * Answers once a file that the host wrote into the workspace shows its new size here: the guest's kernel may remember
 * the old one for a second, and a program that is started next must see what was just copied in.
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
