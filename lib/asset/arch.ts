/** Architectures of guest assets (docs/contracts.md §10). */
export const ARCHES = ["arm64", "x86_64"] as const;
export type Arch = typeof ARCHES[number];

/** Architecture of this host, and so of its guests. */
export function currentArch(): Arch {
  return Deno.build.arch === "aarch64" ? "arm64" : "x86_64";
}
