/** Words on a guest's console that say how far its kernel came. */

/** Line of init in a machine that is only to show that its kernel boots (lib/publish/image/init.ts). */
export const FLOOR_READY = "sbx-init: started";

/**
 * Proof that a kernel has started its first program: init's word, or the kernel's that init had it restart,
 * which an image without that word ends with. QEMU's exit status is no proof: it is 0 after a panic as well.
 */
export const FLOOR_REACHED = new RegExp(`${FLOOR_READY}|reboot: Restarting system`);

/** Most characters of a kernel's words: another image could write anything. */
const WORDS_MAX = 160;
const PANIC = /Kernel panic - not syncing: ([^\r\n]*)/g;

/** Line of init when the guest's agent has ended; then it powers off. */
const AGENT_ENDED = "sbx-init: sbx-pty-agent ended";

/** Cause of a guest's end for an error, from its console; `undefined` if the console names no cause. */
export function deathIn(console: string): string | undefined {
  const panic = panicIn(console);
  if (panic !== undefined) return `its kernel: ${panic}`;
  return console.includes(AGENT_ENDED) ? "its init: the agent ended" : undefined;
}

/** Why a guest's kernel gave up; `undefined` where its console does not say. */
export function panicIn(console: string): string | undefined {
  const words = [...console.matchAll(PANIC)].at(-1)?.[1];
  return words?.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, WORDS_MAX);
}
