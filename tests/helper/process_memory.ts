/** Memory of processes, as Linux counts it. */

/**
 * Memory of these processes in `MiB`, with each shared page counted once among its
 * users; ended ones have none.
 */
export async function proportionalMb(pids: number[]): Promise<number> {
  const sizes = await Promise.all(pids.map(async (pid) => {
    const text = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`).catch(() => "");
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0);
  }));
  return sizes.reduce((sum, size) => sum + size, 0) / 1024;
}
