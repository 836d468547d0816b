/**
 * Host code that only Linux can run is named here, with what macOS has instead: what is not named is meant to
 * run on both. Guests are Linux: cmd/guest and lib/machine/guest are not looked at.
 */
import { assert, assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const PROC = /["'`(]\/proc\b|\/proc\/[$\[a-z]/;

const LINUX_ONLY: Record<string, string> = {
  "ffi/libc/beneath.ts": "ffi/posix/beneath.ts: one component after the other",
  "ffi/libc/descriptor.ts": "ffi/posix/folder.ts",
  "ffi/libc/process.ts": "runs in the guest",
  "cmd/sbx/e2b/metrics.ts": "runs in the guest",
  "ffi/libc/memory.ts": "the framework has the guest's memory",
  "ffi/libc/sealed.ts": "no --live",
  "lib/base/confine/launcher.ts": "programs have the limits of their arguments alone",
  "lib/base/process/mod.ts": "ps, which is there already",
  "lib/repo/git.ts": "the same git, without these limits",
  "lib/base/proxy/pac.ts": "the limit of time",
  "lib/base/spawn/argument.ts": "no process is started ahead (lib/service/vm/spare.ts)",
  "lib/support/debug/report.ts": "ps, which is there already",
  "lib/support/doctor/host/host_facts.ts": "the checks: facts without a file are left empty",
  "lib/support/doctor/host/programs.ts": "lib/support/doctor/host/mac.ts: the library and its entitlement",
  "lib/publish/image/arch.ts": "images are built on Linux",
  "lib/publish/build/guest.ts": "runs in the guest",
  "lib/publish/image/init.ts": "runs in the guest",
  "lib/publish/image/conflicts.ts": "runs in the guest",
  "lib/publish/image/keeper.ts": "runs in the guest",
  "lib/publish/image/build.ts": "images are built on Linux",
  "lib/publish/image/own/confined.ts": "images are built on Linux",
  "lib/machine/live/calls.ts": "the framework shares folders itself: no masks there yet",
  "lib/machine/live/guard.ts": "no --live",
  "lib/machine/live/watch.ts": "no --live",
  "lib/machine/live/watches.ts": "no --live",
  "ffi/libc/fresh.ts": "runs in the guest",
  "lib/publish/package/script.ts": "runs where a Debian package is installed",
  "lib/machine/vm/accelerator.ts": "there is no KVM to try",
  "lib/machine/vm/helper.ts": "no helper programs: the framework runs in the process",
  "lib/machine/vm/launcher.ts": "the framework's machine is in the process",
  "lib/machine/vm/command.ts": "the framework's guests are not emulated",
  "lib/machine/vm/qemu.ts": "the framework's version and the chip",
};

/** Modules of Linux's calls that host code imports, and what macOS has instead. */
const LINUX_CALLS: Record<string, string> = {
  "beneath.ts": "ffi/posix/beneath.ts",
  "confine.ts": "ffi/posix/sandbox.ts",
  "descriptor.ts": "ffi/posix/folder.ts; its errors and strings call nothing",
  "directory.ts": "ffi/posix/folder.ts",
  "landlock.ts": "no helper programs: the framework runs in the process",
  "load.ts": "Deno.dlopen of macOS's library",
  "memory.ts": "the framework has the guest's memory",
  "notify.ts": "the framework shares folders itself: no --live",
  "output.ts": "no process is started ahead (lib/service/vm/spare.ts)",
  "pipe.ts": "no helper programs",
  "probe.ts": "no helper programs",
  "sealed.ts": "no --live",
  "spawn.ts": "no helper programs",
  "stat.ts": "a type",
  "tree.ts": "ffi/posix/folder.ts",
};

/** Programs of Linux alone that host code starts, and what macOS has instead. */
const LINUX_PROGRAMS: Record<string, string> = {
  "lib/machine/live/serve.ts": "setpriv: no --live",
  "lib/service/vm/disk.ts": "mkfs.ext4: the guest formats its disk",
  "lib/publish/update/program/place.ts": "dpkg-query: a program that no package owns is updated by hand",
  "lib/machine/vm/accelerator.ts": "setpriv: there is no KVM to try",
};
const PROGRAM = /Command\("(?:setpriv|mkfs|dpkg|systemctl|unshare|mount)/;

Deno.test("host code calls Linux only where these lists say what macOS has instead", async () => {
  const paths = (await Promise.all(["lib", "cmd", "ffi/host", "ffi/posix"].map(codeBelow))).flat();
  const [modules, programs] = [new Set<string>(), new Set<string>()];
  for (const path of paths.filter((path) => !/^(cmd|lib\/machine)\/guest\//.test(path))) {
    const text = await Deno.readTextFile(fromRoot(path));
    for (const [, name] of text.matchAll(/from "[\w./]+\/libc\/([\w.]+)"/g)) modules.add(name);
    if (PROGRAM.test(text)) programs.add(path);
  }
  assertEquals([...modules].sort(), Object.keys(LINUX_CALLS).sort());
  assertEquals([...programs].sort(), Object.keys(LINUX_PROGRAMS).sort());
});

Deno.test("what the lists name in place of Linux is there", async () => {
  const places = [...Object.values(LINUX_ONLY), ...Object.values(LINUX_CALLS)];
  const named = places.flatMap((text) => text.match(/(?:ffi|lib)\/[\w/]+\.ts/g) ?? []);
  for (const path of named) assert((await Deno.stat(fromRoot(path))).isFile, path);
});

Deno.test("host code uses /proc only where this list says what macOS has instead", async () => {
  const paths = (await Promise.all(["lib", "cmd", "ffi"].map(codeBelow))).flat();
  const found: string[] = [];
  for (const path of paths.filter((path) => !/^(cmd|lib\/machine)\/guest\//.test(path))) {
    if (code(await Deno.readTextFile(fromRoot(path))).some((line) => PROC.test(line))) found.push(path);
  }
  assertEquals(found.sort(), Object.keys(LINUX_ONLY).sort());
});

/** Lines without comments. */
function code(text: string): string[] {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").split("\n").map((line) => line.replace(/^\s*\/\/.*/, ""));
}
