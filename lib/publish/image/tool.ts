import { SbxError } from "../../base/error/mod.ts";

/** Tools of a build, with the Debian package of each. */
const TOOLS: Record<string, string> = {
  "apt-get": "apt",
  "dpkg-deb": "dpkg",
  "mmdebstrap": "mmdebstrap",
  "mkfs.erofs": "erofs-utils",
};

/** Decompressors for kernels, with the Debian package of each; required only for the format in use. */
export const UNPACKERS: Record<string, string> = { lz4: "lz4", zstd: "zstd", xz: "xz-utils", gzip: "gzip" };

/** @throws {SbxError} `image.tool_missing`: names every missing tool and its package */
export async function requireTools(tools: Record<string, string> = TOOLS): Promise<void> {
  const present = await Promise.all(Object.keys(tools).map(hasTool));
  const missing = Object.keys(tools).filter((_, at) => !present[at]);
  if (missing.length === 0) return;
  const packages = missing.map((tool) => tools[tool]).join(" ");
  throw new SbxError(
    "image.tool_missing",
    `an image build needs ${missing.join(", ")}, not found on this machine`,
    {
      hint: `install the missing programs: make setup (scripts/deps.sh), or apt-get install ${packages}`,
    },
  );
}

/** Tests whether `tool` is on the path. */
export async function hasTool(tool: string): Promise<boolean> {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":").concat("/usr/sbin", "/sbin")) {
    const info = await Deno.stat(`${folder}/${tool}`).catch(() => null);
    if (info?.isFile && (info.mode ?? 0) & 0o111) return true;
  }
  return false;
}
