/**
 * Mounts a file system with the options of the arguments, has its names dropped, and prints how
 * it is mounted before and after.
 */
import { dropNames } from "../../ffi/libc/fresh.ts";

const dir = Deno.makeTempDirSync();
for (const options of Deno.args) {
  new Deno.Command("mount", { args: ["-t", "tmpfs", "-o", options, "none", dir] }).outputSync();
  const before = mounted();
  dropNames(dir);
  console.log(before, mounted());
  new Deno.Command("umount", { args: [dir] }).outputSync();
}
Deno.removeSync(dir);

function mounted(): string {
  const lines = Deno.readTextFileSync("/proc/self/mountinfo").split("\n");
  const words = lines.find((line) => line.split(" ")[4] === dir)!.split(" ");
  return `${words[5]};${words.at(-1)!.split(",")[0]}`;
}
