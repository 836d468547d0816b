import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Hypervisor } from "./hypervisor.ts";
import { Qemu } from "./qemu.ts";
import { Vz } from "./vz.ts";

/**
 * Names the library that runs machines; on a Mac in place of the one beside the
 * program, elsewhere in place of QEMU.
 */
const LIBRARY_VARIABLE = "SBX_VM_LIBRARY";

/**
 * The hypervisor of this host: Virtualization.framework on a Mac, QEMU elsewhere.
 *
 * @param named path of a library to use in its place; empty counts as absent
 * @param os the system, as `Deno.build.os` names it
 */
export function hostHypervisor(
  named = Deno.env.get(LIBRARY_VARIABLE),
  os: string = Deno.build.os,
): Hypervisor {
  const library = libraryPath(named, os);
  return library ? new Vz(library) : new Qemu();
}

/** Path of the library that runs the VMs of this host. @returns undefined: QEMU runs them */
export function libraryPath(
  named = Deno.env.get(LIBRARY_VARIABLE),
  os: string = Deno.build.os,
): string | undefined {
  return named || (os === "darwin" ? besideProgram() : undefined);
}

/** The library of a compiled program is beside it, and `make dylib` writes that of a checkout to `bin`. */
function besideProgram(): string {
  const folder = Deno.build.standalone
    ? dirname(Deno.execPath())
    : fileURLToPath(new URL("../../../bin", import.meta.url));
  return join(folder, "libsbxvm.dylib");
}
