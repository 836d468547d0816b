/** The kernel's own last words, on the console of a machine that has ended. */
import { panicIn } from "../machine/vm/mod.ts";

/** Most `bytes` of a console's end that are looked at. */
const TAIL = 64 * 1024;

/** Why the guest's kernel gave up; `undefined` where its console does not say. Never throws. */
export async function panicOf(consolePath: string): Promise<string | undefined> {
  try {
    using file = await Deno.open(consolePath);
    const { size } = await file.stat();
    await file.seek(Math.max(0, size - TAIL), Deno.SeekMode.Start);
    return panicIn(await new Response(file.readable).text());
  } catch {
    return undefined;
  }
}
