/** Debian packages of a company: its repositories, and files. */
import { basename, join } from "node:path";
import type { Arch } from "../../../base/arch/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { isAptPackage, type Packages } from "../../../config/profile/mod.ts";
import { archNames } from "../arch.ts";
import { runText } from "../command.ts";
import type { OwnPackage } from "./component.ts";
import type { OwnFiles } from "./file.ts";

/** Where the image has the keys of its repositories. */
const KEYRINGS = "usr/share/keyrings";
const ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const SECRET = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/** Shell commands that make a built tree's sources, `$root`, the ones of its own apt. */
export const LASTING_SOURCES =
  `for list in "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*.list; do
  [ ! -f "$list" ] || sed -i -e '/ copy:/d' -e 's|signed-by=[^]]*/sbx-source-|signed-by=/${KEYRINGS}/sbx-source-|' "$list"
done`;

/** Sources for apt, beside Debian's. */
export interface OwnSources {
  /**
   * lines for the build, with paths of this machine; the image's own apt has the keys in
   * {@linkcode KEYRINGS}, and no files
   */
  sources: string[];
  /** names with versions, for apt to install */
  names: string[];
  packages: OwnPackage[];
}

/**
 * Prepares a profile's repositories, with their keys in the image, and one of its own Debian packages.
 *
 * @throws {SbxError} `image.file.*`, `image.key.invalid`, `image.deb.*`
 */
export async function ownSources(
  { apt_source = [], deb = [] }: Pick<Packages, "apt_source" | "deb">,
  arch: Arch,
  own: OwnFiles,
  { work, overlay, signal }: { work: string; overlay: string; signal?: AbortSignal },
): Promise<OwnSources> {
  const found: OwnSources = { sources: [], names: [], packages: [] };
  const { debian } = archNames(arch);
  for (const [at, { uri, suite, components, signed_by }] of apt_source.entries()) {
    const path = await own.copy(signed_by);
    const bytes = await Deno.readFile(path);
    const head = new TextDecoder().decode(bytes.subarray(0, 64)).trimStart();
    const isArmored = head.startsWith(ARMOR);
    // The first byte of a packet of a public key, in the old and the new format (RFC 9580, 4.2).
    if (head.startsWith(SECRET) || !isArmored && ![0x98, 0x99, 0xc6].includes(bytes[0])) {
      throw new SbxError("image.key.invalid", `${signed_by.file} is not a public key of OpenPGP`, {
        hint: "gpg --export --armor NAME writes one",
      });
    }
    const name = `sbx-source-${at + 1}.${isArmored ? "asc" : "gpg"}`;
    const key = join(work, name);
    await Deno.copyFile(path, key);
    await Deno.mkdir(join(overlay, KEYRINGS), { recursive: true });
    await Deno.copyFile(path, join(overlay, KEYRINGS, name));
    const parts = [suite, ...components].join(" ");
    found.sources.push(`deb [arch=${debian} signed-by=${key}] ${uri} ${parts}`);
  }
  if (deb.length === 0) return found;
  const archive = join(work, "archive");
  await Deno.mkdir(archive, { mode: 0o755 });
  const index: string[] = [];
  for (const pinned of deb) {
    const path = await own.copy(pinned);
    const control = await controlOf(path, pinned.file, signal);
    const field = (name: string) => new RegExp(`^${name}: *(.+)$`, "m").exec(control)?.[1].trim() ?? "";
    const [name, version, architecture] = ["Package", "Version", "Architecture"].map(field);
    if (!isAptPackage(`${name}=${version}`)) {
      throw new SbxError("image.deb.invalid", `${pinned.file} has no valid name and version`, {
        hint: "build it with dpkg-deb --build, which checks both",
      });
    }
    if (![debian, "all"].includes(architecture)) {
      throw new SbxError(
        "image.deb.arch",
        `${pinned.file} is for ${architecture}, and the image for ${debian}`,
        {
          hint: "name the package of that architecture in packages.deb",
        },
      );
    }
    const file = `${found.names.length}-${basename(path)}`;
    await Deno.rename(path, join(archive, file));
    const { size } = await Deno.stat(join(archive, file));
    index.push(`${control.trim()}\nFilename: ./${file}\nSize: ${size}\nSHA256: ${pinned.sha256}\n`);
    found.names.push(`${name}=${version}`);
    found.packages.push({ kind: "deb", name, version, hash: `sha256:${pinned.sha256}` });
  }
  await Deno.writeTextFile(join(archive, "Packages"), index.join("\n"));
  found.sources.push(`deb [arch=${debian} trusted=yes] copy:${archive} ./`);
  return found;
}

async function controlOf(path: string, file: string, signal?: AbortSignal): Promise<string> {
  // A damaged archive has a control file too.
  await runText(["dpkg-deb", "--contents", path], { doing: `reading ${file}`, signal }).catch(refuse);
  return await runText(["dpkg-deb", "--field", path], { doing: `reading ${file}`, signal }).catch(refuse);

  function refuse(cause: unknown): never {
    if (cause instanceof SbxError && cause.code === "image.interrupted") throw cause;
    throw new SbxError("image.deb.invalid", `${file} is not a whole Debian package`, {
      cause,
      hint: "copy or build it again, and write its new SHA-256 into profile.toml",
    });
  }
}
