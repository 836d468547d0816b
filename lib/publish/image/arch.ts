import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";

/** Names of one architecture in other systems. */
export interface ArchNames {
  debian: string;
  npm: string;
  /** package of Debian's kernel for virtual machines */
  kernelPackage: string;
}

const NAMES: Record<Arch, ArchNames> = {
  x86_64: { debian: "amd64", npm: "x64", kernelPackage: "linux-image-cloud-amd64" },
  arm64: { debian: "arm64", npm: "arm64", kernelPackage: "linux-image-cloud-arm64" },
};

/** Names of `arch` in Debian and npm. */
export function archNames(arch: Arch): ArchNames {
  return NAMES[arch];
}

/**
 * Requires that programs of `arch` run on this machine, since Debian's packages run scripts during
 * installation.
 *
 * @throws {SbxError} `image.arch.unsupported`: the hint names the packages to install
 */
export async function requireRunnable(arch: Arch): Promise<void> {
  if (arch === currentArch()) return;
  const handler = arch === "arm64" ? "qemu-aarch64" : "qemu-x86_64";
  const status = await Deno.readTextFile(`/proc/sys/fs/binfmt_misc/${handler}`).catch(() => "");
  if (status.startsWith("enabled")) return;
  throw new SbxError("image.arch.unsupported", `this ${currentArch()} machine cannot run ${arch} programs`, {
    hint:
      `apt-get install qemu-user-static binfmt-support arch-test; without systemd also: mount -t binfmt_misc binfmt_misc ` +
      `/proc/sys/fs/binfmt_misc && update-binfmts --enable ${handler}; or build on a ${arch} machine`,
  });
}
