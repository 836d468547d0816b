/**
 * The keeper, which has started this program (lib/publish/image/keeper.ts). It owns the group of fanotify(7)
 * that this program inherits, and answers the kernel's questions until this program does.
 */
import type { Keeper } from "./holds.ts";

/** @param arg number of the group, negative where the kernel has none */
export function keeperOf(arg = "-1"): Keeper | undefined {
  const group = Number(arg);
  if (group < 0) return undefined;
  return {
    group,
    async leave() {
      Deno.kill(Deno.ppid, "SIGUSR1");
      // It writes nothing: the end is its answer.
      await Deno.stdin.read(new Uint8Array(1));
    },
  };
}
