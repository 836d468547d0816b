/** Processor architectures of this machine, and of guests with images. */
import { SbxError } from "../error/mod.ts";
import { suggestion } from "../text/mod.ts";

/** Architectures of guest assets (docs/design/contracts/10-release.md §10). */
export const ARCHES = ["arm64", "x86_64"] as const;
export type Arch = typeof ARCHES[number];

/** Architecture of this machine, and of its guests unless they ask for the other one. */
export function currentArch(): Arch {
  return Deno.build.arch === "aarch64" ? "arm64" : "x86_64";
}

/** What others call them. By spelling, amd64 would be nearest to arm64. */
const OTHER_NAMES: ReadonlyMap<string, Arch> = new Map([
  ["amd64", "x86_64"],
  ["x64", "x86_64"],
  ["x86-64", "x86_64"],
  ["aarch64", "arm64"],
]);

/** Parses the name of an architecture. @throws {SbxError} `arch.invalid` */
export function parseArch(name: string): Arch {
  const arch = ARCHES.find((arch) => arch === name);
  if (arch) return arch;
  const meant = OTHER_NAMES.get(name.toLowerCase());
  throw new SbxError("arch.invalid", `there is no architecture "${name}"`, {
    hint: meant ? suggestion(meant) : `write one of ${ARCHES.join(", ")}`,
  });
}
