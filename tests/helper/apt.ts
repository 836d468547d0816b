/** An archive of Debian packages, as a server has it. */
import { gzipSync } from "node:zlib";
import { sha256 } from "./cache.ts";

/** A package of an archive. */
export interface Deb {
  /** as the index names it: `pool/main/h/hello/hello_2.10-3_amd64.deb` */
  path: string;
  content: Uint8Array<ArrayBuffer> | string;
  /** further fields of its paragraph */
  fields?: string;
}

export interface ArchiveOptions {
  suite?: string;
  architectures?: string[];
  /** false: indexes have no path with their digest */
  byHash?: boolean;
  /** name of the release file */
  release?: "InRelease" | "Release";
}

/** The files of a suite by path, without its packages. */
export function suiteFiles(
  debs: readonly Deb[],
  { suite = "x", architectures = ["amd64"], byHash = true, release = "InRelease" }: ArchiveOptions = {},
): Map<string, Uint8Array<ArrayBuffer> | string> {
  const files = new Map<string, Uint8Array<ArrayBuffer> | string>();
  const paragraphs = debs.map(({ path, content, fields = "Package: pad\n" }) =>
    `${fields}Filename: ${path}\nSize: ${content.length}\nSHA256: ${sha256(content)}\n`
  );
  const text = paragraphs.join("\n");
  const lines: string[] = [];
  for (const architecture of architectures) {
    const folder = `main/binary-${architecture}`;
    const packed = new Uint8Array(gzipSync(text));
    for (const [name, bytes] of [["Packages", text], ["Packages.gz", packed]] as const) {
      lines.push(` ${sha256(bytes)} ${bytes.length} ${folder}/${name}`);
      files.set(`/dists/${suite}/${folder}/${name}`, bytes);
      if (byHash) files.set(`/dists/${suite}/${folder}/by-hash/SHA256/${sha256(bytes)}`, bytes);
    }
  }
  const head =
    `Origin: Test\nSuite: ${suite}\nCodename: ${suite}\nArchitectures: ${architectures.join(" ")}\n` +
    `Components: main\nDate: Sat, 01 Nov 2025 00:00:00 UTC\n${byHash ? "Acquire-By-Hash: yes\n" : ""}`;
  files.set(`/dists/${suite}/${release}`, `${head}SHA256:\n${lines.join("\n")}\n`);
  return files;
}

/** All files of an archive by path. */
export function archiveFiles(debs: readonly Deb[], options?: ArchiveOptions) {
  return new Map([
    ...suiteFiles(debs, options),
    ...debs.map(({ path, content }) => [`/${path}`, content] as const),
  ]);
}

/** Answers with the files below a path. */
export function serveFiles(files: ReadonlyMap<string, Uint8Array<ArrayBuffer> | string>, base = "/debian") {
  return (url: { pathname: string }): Response => {
    const path = decodeURIComponent(url.pathname);
    const file = path.startsWith(base) ? files.get(path.slice(base.length)) : undefined;
    return new Response(file ?? null, { status: file === undefined ? 404 : 200 });
  };
}
