/** The kernel's own last words, on the console of a machine that has ended. */

/** Most `bytes` of a console's end that are looked at. */
const TAIL = 64 * 1024;
/** Most characters of a kernel's words: another image could write anything. */
const WORDS_MAX = 160;
const PANIC = /Kernel panic - not syncing: ([^\r\n]*)/g;

/** Why the guest's kernel gave up; `undefined` where its console does not say. Never throws. */
export async function panicOf(consolePath: string): Promise<string | undefined> {
  try {
    using file = await Deno.open(consolePath);
    const { size } = await file.stat();
    await file.seek(Math.max(0, size - TAIL), Deno.SeekMode.Start);
    const text = await new Response(file.readable).text();
    const words = [...text.matchAll(PANIC)].at(-1)?.[1];
    return words?.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, WORDS_MAX);
  } catch {
    return undefined;
  }
}
