/** Processor architectures of this machine, and of guests with images. */
import { SbxError } from "../error/mod.ts";

/** Architectures of guest assets (docs/design/contracts/10-release.md §10). */
export const ARCHES = ["arm64", "x86_64"] as const;
export type Arch = typeof ARCHES[number];

/** Architecture of this machine, and of its guests unless they ask for the other one. */
export function currentArch(): Arch {
  return Deno.build.arch === "aarch64" ? "arm64" : "x86_64";
}

/** Parses the name of an architecture. @throws {SbxError} `arch.invalid` */
export function parseArch(name: string): Arch {
  const arch = ARCHES.find((arch) => arch === name);
  if (arch) return arch;
  throw new SbxError("arch.invalid", `there is no architecture "${name}"`, {
    hint: `write one of ${ARCHES.join(", ")}`,
  });
}
