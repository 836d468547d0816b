import { SbxError } from "../base/error/mod.ts";

/** Architectures that a guest image exists for, as the asset manifest names them (spec.md, "Versioning" 8). */
export const ARCHES = ["x86_64", "arm64"] as const;
export type Arch = typeof ARCHES[number];

/** How others name one architecture. */
export interface ArchNames {
  debian: string;
  npm: string;
  /** Debian's kernel for virtual machines */
  kernelPackage: string;
}

const NAMES: Record<Arch, ArchNames> = {
  x86_64: { debian: "amd64", npm: "x64", kernelPackage: "linux-image-cloud-amd64" },
  arm64: { debian: "arm64", npm: "arm64", kernelPackage: "linux-image-cloud-arm64" },
};

/** What Debian and npm call `arch`. */
export function archNames(arch: Arch): ArchNames {
  return NAMES[arch];
}

/** The architecture of this machine. */
export function hostArch(): Arch {
  return Deno.build.arch === "aarch64" ? "arm64" : "x86_64";
}

/** `name` as an {@linkcode Arch}. @throws {SbxError} `image.arch.invalid` */
export function parseArch(name: string): Arch {
  const arch = ARCHES.find((known) => known === name);
  if (arch) return arch;
  throw new SbxError("image.arch.invalid", `"${name}" is not an architecture that images are built for`, {
    hint: `--arch is one of ${ARCHES.join(", ")}`,
  });
}

/**
 * Whether programs of `arch` run here: Debian's packages run their own scripts while they are installed.
 *
 * @throws {SbxError} `image.arch.unsupported`, naming what to install
 */
export async function requireRunnable(arch: Arch): Promise<void> {
  if (arch === hostArch()) return;
  const handler = arch === "arm64" ? "qemu-aarch64" : "qemu-x86_64";
  const status = await Deno.readTextFile(`/proc/sys/fs/binfmt_misc/${handler}`).catch(() => "");
  if (status.startsWith("enabled")) return;
  throw new SbxError("image.arch.unsupported", `this ${hostArch()} machine cannot run programs of ${arch}`, {
    hint: "apt-get install qemu-user-static binfmt-support, or build on a machine of that architecture",
  });
}
