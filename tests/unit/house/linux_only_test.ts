/**
 * Host code that only Linux can run is named here, with what macOS has instead: what is not named is meant to run on both.
 * Guests are Linux: cmd/guest and lib/guest are not looked at.
 */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const PROC = /["'`(]\/proc\b|\/proc\/[$\[a-z]/;

const LINUX_ONLY: Record<string, string> = {
  "ffi/libc/beneath.ts": "O_NOFOLLOW_ANY, one component after the other",
  "ffi/libc/descriptor.ts": "F_GETPATH",
  "ffi/libc/memory.ts": "the framework has the guest's memory",
  "lib/base/process/mod.ts": "ps, which is there already",
  "lib/base/spawn/argument.ts": "no machine is started ahead",
  "lib/debug/report.ts": "ps, which is there already",
  "lib/doctor/host/programs.ts": "lib/doctor/host/mac.ts: the library and its entitlement",
  "lib/image/arch.ts": "images are built on Linux",
  "lib/image/init.ts": "runs in the guest",
  "lib/image/keeper.ts": "runs in the guest",
  "lib/image/tree.ts": "images are built on Linux",
  "lib/live/calls.ts": "the framework shares folders itself: no masks there yet",
  "lib/package/script.ts": "runs where a Debian package is installed",
  "lib/vm/child.ts": "no helper programs: the framework runs in the process",
  "lib/vm/clock.ts": "the framework's guests are not emulated",
  "lib/vm/identity.ts": "the framework's version and the chip",
};

Deno.test("host code uses /proc only where this list says what macOS has instead", async () => {
  const paths = (await Promise.all(["lib", "cmd", "ffi"].map(codeBelow))).flat();
  const found: string[] = [];
  for (const path of paths.filter((path) => !/^(cmd|lib)\/guest\//.test(path))) {
    if (code(await Deno.readTextFile(fromRoot(path))).some((line) => PROC.test(line))) found.push(path);
  }
  assertEquals(found.sort(), Object.keys(LINUX_ONLY).sort());
});

/** Lines without comments. */
function code(text: string): string[] {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").split("\n").map((line) => line.replace(/^\s*\/\/.*/, ""));
}
