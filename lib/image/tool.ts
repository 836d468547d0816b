import { SbxError } from "../base/error/mod.ts";

/** Tools that a build calls, with the Debian package that each is in. */
const TOOLS: Record<string, string> = {
  "apt-get": "apt",
  "dpkg-deb": "dpkg",
  "mmdebstrap": "mmdebstrap",
  "mkfs.erofs": "erofs-utils",
};

/** Decompressors by what a kernel may be packed with; wanted only when one is met. */
export const UNPACKERS: Record<string, string> = { lz4: "lz4", zstd: "zstd", xz: "xz-utils", gzip: "gzip" };

/** @throws {SbxError} `image.tool_missing` naming every tool and package that is not there */
export async function requireTools(tools: Record<string, string> = TOOLS): Promise<void> {
  const found = await Promise.all(Object.keys(tools).map(hasTool));
  const missing = Object.keys(tools).filter((_, index) => !found[index]);
  if (missing.length === 0) return;
  const packages = missing.map((tool) => tools[tool]).join(" ");
  throw new SbxError(
    "image.tool_missing",
    `an image build needs ${missing.join(", ")}, which this machine has not`,
    {
      hint: `make setup (scripts/deps.sh) installs them, or apt-get install ${packages}`,
    },
  );
}

/** Is `tool` on the path? */
export async function hasTool(tool: string): Promise<boolean> {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":").concat("/usr/sbin", "/sbin")) {
    const info = await Deno.stat(`${folder}/${tool}`).catch(() => null);
    if (info?.isFile && (info.mode ?? 0) & 0o111) return true;
  }
  return false;
}
