const encoder = new TextEncoder();
/**
 * Field of `/proc/PID/stat` with the address of the arguments, counted from the
 * one behind the program's name.
 */
const ARGUMENTS_FIELD = 45;

/**
 * Replaces an argument of this process where others see it, as `ps` does; Linux only.
 *
 * @param to as long as `from`
 * @throws {Error} there is no such argument
 */
export function replaceArgument(from: string, to: string): void {
  const before = Deno.readFileSync("/proc/self/cmdline");
  const at = indexOf(before, encoder.encode(`\0${from}\0`)) + 1;
  if (at === 0 || from.length !== to.length) throw new Error(`this process has no argument ${from}`);
  const stat = Deno.readTextFileSync("/proc/self/stat");
  const address = stat.slice(stat.lastIndexOf(") ") + 2).split(" ")[ARGUMENTS_FIELD];
  using memory = Deno.openSync("/proc/self/mem", { write: true });
  memory.seekSync(BigInt(address) + BigInt(at), Deno.SeekMode.Start);
  memory.writeSync(encoder.encode(to));
}

function indexOf(bytes: Uint8Array, part: Uint8Array): number {
  for (let at = 0; at + part.length <= bytes.length; at++) {
    if (part.every((byte, offset) => bytes[at + offset] === byte)) return at;
  }
  return -1;
}
