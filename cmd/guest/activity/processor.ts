/** Parameter of the kernel of an emulated guest, whose other processors init has brought online (lib/machine/vm/command.ts). */
const EMULATED = "maxcpus=1";
const PROCESSORS = "/sys/devices/system/cpu";

/**
 * Runs work that changes the kernel's own code while only one processor is online: an emulated one may run a
 * breakpoint that another has placed there temporarily, and the kernel ends in a panic.
 */
export function withOneProcessor<T>(work: () => T): T {
  const others = Deno.readTextFileSync("/proc/cmdline").includes(EMULATED) ? onlineProcessors() : [];
  for (const path of others) Deno.writeTextFileSync(path, "0");
  try {
    return work();
  } finally {
    for (const path of others) Deno.writeTextFileSync(path, "1");
  }
}

/** Switches of the processors that are online, without the first one, which has none. */
function onlineProcessors(): string[] {
  return Array.from(Deno.readDirSync(PROCESSORS), ({ name }) => `${PROCESSORS}/${name}/online`)
    .filter((path) => /\/cpu[1-9]\d*\//.test(path) && Deno.readTextFileSync(path).trim() === "1");
}
