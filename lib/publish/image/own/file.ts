/** Files of a profile's folder that go into its image. */
import { X509Certificate } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { SbxError } from "../../../base/error/mod.ts";
import { formatBytes } from "../../../base/progress/mod.ts";
import type { Packages, PinnedFile } from "../../../config/profile/mod.ts";
import { digestFile } from "../../../release/mod.ts";
import type { OwnFile } from "./component.ts";

/** Largest file of a profile's folder, in `bytes`. */
const FILE_BYTES_MAX = 1e9;
/** Largest file that is read as a text: keys, locks, certificates and scripts. */
const TEXT_BYTES_MAX = 16e6;

/** Where update-ca-certificates takes certificates from. */
const CERTIFICATES = "usr/local/share/ca-certificates";
const PEM = /-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?-----END \1-----/g;

/** Copies of a profile's pinned files: the bytes that were verified are used. */
export class OwnFiles {
  readonly #folder?: string;
  readonly #work: string;
  #count = 0;

  /**
   * @param folder of the profile; undefined for a built-in one, which has no files
   * @param work where the copies are
   */
  constructor(folder: string | undefined, work: string) {
    this.#folder = folder;
    this.#work = work;
  }

  /**
   * Copies a file, and requires its hash. A link is followed: the hash is of the file that it leads to.
   *
   * @returns path of the copy, which has the file's name
   * @throws {SbxError} `image.file.missing`, `image.file.changed`
   */
  async copy({ file, sha256 }: PinnedFile, max = FILE_BYTES_MAX): Promise<string> {
    const source = join(this.#folder ?? "", file);
    const info = this.#folder === undefined ? null : await Deno.stat(source).catch(() => null);
    if (!info?.isFile) {
      throw new SbxError("image.file.missing", `${source} is not there, or is not a file`, {
        hint: "paths in [packages] are below the folder of profile.toml",
      });
    }
    if (info.size > max) {
      throw new SbxError("image.file.missing", `${source} is larger than ${formatBytes(max)}`, {
        hint: "take it out of [packages], or make it smaller",
      });
    }
    const dir = join(this.#work, String(this.#count++));
    await Deno.mkdir(dir, { recursive: true, mode: 0o755 });
    const copy = join(dir, basename(file));
    await Deno.copyFile(source, copy);
    await Deno.chmod(copy, 0o644);
    const { sha256: actual } = await digestFile(copy);
    if (actual === sha256) return copy;
    throw new SbxError("image.file.changed", `${source} has the SHA-256 ${actual}, and not ${sha256}`, {
      hint: "if the file is the right one now, write this SHA-256 into profile.toml",
    });
  }

  /** As {@linkcode copy}, for a file of at most 16 MB. */
  async text(pinned: PinnedFile): Promise<{ path: string; text: string }> {
    const path = await this.copy(pinned, TEXT_BYTES_MAX);
    return { path, text: await Deno.readTextFile(path) };
  }
}

/**
 * Lays files and certificates of a profile over Debian's.
 *
 * @throws {SbxError} `image.file.*`, `image.certificate.invalid`
 */
export async function placeFiles(
  { files = [], certificates = [] }: Pick<Packages, "files" | "certificates">,
  own: OwnFiles,
  overlay: string,
): Promise<OwnFile[]> {
  const placed: OwnFile[] = [];
  for (const file of files) {
    const target = join(overlay, file.to);
    const copy = await own.copy(file);
    try {
      await Deno.mkdir(dirname(target), { recursive: true });
      await Deno.copyFile(copy, target);
    } catch (cause) {
      throw conflict(file.to, cause);
    }
    await Deno.chmod(target, parseInt(file.mode, 8));
    placed.push({ name: file.to, sha256: file.sha256 });
  }
  if (certificates.length > 0) await Deno.mkdir(join(overlay, CERTIFICATES), { recursive: true });
  for (const [at, pinned] of certificates.entries()) {
    const { text } = await own.text(pinned);
    // update-ca-certificates takes one certificate a file.
    for (const [nth, pem] of certificatesOf(text, pinned.file).entries()) {
      const name = `${basename(pinned.file).replace(/\.[a-z]+$/i, "")}-${at + 1}-${nth + 1}.crt`;
      await Deno.writeTextFile(join(overlay, CERTIFICATES, name), pem + "\n", { mode: 0o644 });
    }
    placed.push({ name: `/${CERTIFICATES}/${basename(pinned.file)}`, sha256: pinned.sha256 });
  }
  return placed;
}

/** Error for a file whose place is taken. */
export function conflict(path: string, cause?: unknown): SbxError {
  return new SbxError("image.file.conflict", `the image cannot have a file at ${path}`, {
    cause,
    hint: "a folder is there, or a file in its way: give the entry of packages.files another place",
  });
}

/** The certificates of a PEM file, which has nothing else. @throws {SbxError} `image.certificate.invalid` */
function certificatesOf(text: string, file: string): string[] {
  const blocks = [...text.matchAll(PEM)];
  const other = blocks.find(([, kind]) => kind !== "CERTIFICATE");
  const why = other
    ? `has a block ${other[1]}, which would be in every VM`
    : blocks.length === 0
    ? "has no certificate in PEM"
    : blocks.some(([pem]) => !isCertificate(pem))
    ? "has a certificate that cannot be read"
    : undefined;
  if (why === undefined) return blocks.map(([pem]) => pem);
  throw new SbxError("image.certificate.invalid", `${file} ${why}`, {
    hint: "a file of packages.certificates has certificates in PEM, and nothing else",
  });
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).serialNumber !== "";
  } catch {
    return false;
  }
}
