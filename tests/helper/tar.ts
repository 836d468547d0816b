/**
 * Tar archives for tests, with everything that a layer may contain, hostile or not. Texts
 * have a character for each byte.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { Layer } from "../../lib/publish/environment/mod.ts";

/** An entry of an archive. */
export interface TarFile {
  name: string;
  /** tar's letter; default "0", a file, or "5" for a name that ends with a slash */
  type?: string;
  content?: string | Uint8Array;
  mode?: number;
  uid?: number;
  gid?: number;
  mtime?: number;
  link?: string;
  xattrs?: Record<string, string | Uint8Array>;
  /** records of the extended header, besides the ones that the rest needs */
  pax?: Record<string, string>;
  /** size in the header, where it is another than the content's */
  size?: number;
}

const bytesOf = (data: string | Uint8Array) => typeof data === "string" ? Buffer.from(data, "latin1") : data;

function header(
  { name, type, mode, uid = 0, gid = 0, mtime = 0, link = "" }: TarFile,
  size: number,
): Uint8Array {
  const block = new Uint8Array(512);
  const text = (at: number, value: string) => block.set(bytesOf(value), at);
  const number = (at: number, length: number, value: number) =>
    text(at, value.toString(8).padStart(length - 1, "0"));
  const letter = type ?? (name.endsWith("/") ? "5" : "0");
  text(0, name.slice(0, 100));
  number(100, 8, mode ?? (letter === "5" ? 0o755 : 0o644));
  number(108, 8, uid);
  number(116, 8, gid);
  number(124, 12, size);
  number(136, 12, mtime);
  text(148, " ".repeat(8));
  text(156, letter);
  text(157, link.slice(0, 100));
  text(257, "ustar\x0000");
  number(148, 7, block.reduce((sum, byte) => sum + byte, 0));
  block[154] = 0;
  return block;
}

function padded(content: Uint8Array): Uint8Array {
  const whole = new Uint8Array(content.length + (-content.length & 511));
  whole.set(content);
  return whole;
}

/** A record of an extended header, whose length counts its own digits. */
export function record(key: string, value: Uint8Array): Uint8Array {
  const rest = Buffer.concat([bytesOf(` ${key}=`), value, bytesOf("\n")]);
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([bytesOf(String(length)), rest]);
}

/** An archive. */
export function tar(files: TarFile[]): Uint8Array {
  const parts = files.flatMap((file) => {
    const records = [
      ...Object.entries(file.pax ?? {}).map(([key, value]) => record(key, bytesOf(value))),
      ...Object.entries(file.xattrs ?? {}).map(([name, value]) =>
        record(`SCHILY.xattr.${name}`, bytesOf(value))
      ),
    ];
    if (file.name.length > 100) records.push(record("path", bytesOf(file.name)));
    if ((file.link?.length ?? 0) > 100) records.push(record("linkpath", bytesOf(file.link!)));
    const extended = Buffer.concat(records);
    const content = bytesOf(file.content ?? "");
    return [
      ...(extended.length > 0 ? [header({ name: "x", type: "x" }, extended.length), padded(extended)] : []),
      header(file, file.size ?? content.length),
      padded(content),
    ];
  });
  return Buffer.concat([...parts, new Uint8Array(1024)]);
}

/** A layer, and the digest of its archive. */
export interface WrittenLayer extends Layer {
  diffId: string;
}

/** Writes an archive as a layer, packed with gzip. */
export async function writeLayer(
  dir: string,
  files: TarFile[] | Uint8Array,
  packed = true,
): Promise<WrittenLayer> {
  const archive = files instanceof Uint8Array ? files : tar(files);
  const bytes = packed ? gzipSync(archive) : archive;
  const digest = createHash("sha256").update(bytes).digest("hex");
  const path = `${dir}/${digest}`;
  await Deno.writeFile(path, bytes);
  const diffId = `sha256:${createHash("sha256").update(archive).digest("hex")}`;
  return { path, digest: `sha256:${digest}`, size: bytes.length, diffId };
}
