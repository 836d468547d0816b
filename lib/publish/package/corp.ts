/** Debian package with a company's configuration (docs/design/contracts/10-release.md §10, "Packages"). */
import { basename, join, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import {
  type CorpCheck,
  corpFilePaths,
  loadCorp,
  type NamedFile,
  validateCorp,
} from "../../config/corp/mod.ts";
import {
  INDEX_ENVELOPE_NAME,
  INDEX_NAME,
  MANAGED_TRUST,
  parseTrust,
  type PublicKey,
  verifyTree,
} from "../../release/mod.ts";
import { filesOfReleases } from "../../release/attest/mod.ts";
import type { Deb, PackageFile } from "./deb.ts";
import { FETCH_ASSETS } from "./script.ts";

/** Input of a company's package. */
export interface CorpParts {
  /** manifest of the assets that every machine gets */
  manifestUrl: string;
  /** path of corp.toml */
  corp: string;
  /** path of certificates in PEM, for `network.extra_ca_file` of corp.toml */
  ca?: string;
  /** path of the keys that sign the company's releases (`release-trust.json`) */
  trust?: string;
  /** paths of further files, such as model prices, for `/etc/sbx/NAME` */
  files?: string[];
  /** path of a published tree, whose profiles machines install: `release publish` writes it */
  releases?: string;
  /** check of corp.toml's content, with the places of the files that it names by absolute paths */
  check: (placeOf: (path: string) => string | undefined) => CorpCheck;
  name: string;
  version: string;
  maintainer: string;
  /** oldest sbx that understands these files */
  minSbx: string;
  sourceDateEpoch: number;
}

/** Places of the package's files, and of their installed copies. */
const SOURCE = "usr/share/sbx/corp", TARGET = "/etc/sbx";
/** Debian's names of packages. */
const NAME = /^[a-z0-9][a-z0-9+.-]+$/;
/** Paths that are also words of a shell script; corp.toml has none with `..`. */
const RULE_FILE = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/;
const VERSION = /^[0-9][A-Za-z0-9.+~]*$/;
/** Names of further files: no `corp.toml`, no hidden file. */
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** Largest further file, and all files of releases, in bytes. */
const FILE_MAX = 16 * 1024 * 1024, RELEASES_MAX = 1024 * 1024 * 1024;
/** Place of releases, and the channel index that corp.toml names for them. */
const RELEASES = "usr/share/sbx/releases", RELEASES_URL = `file:///${RELEASES}/${INDEX_NAME}`;

/** A company's package. */
export interface CorpDeb {
  deb: Deb;
  /** files that corp.toml names, and that machines get by other ways, such as a proxy's password */
  needs: { key: string; path: string }[];
  /** problems of corp.toml that do not prevent it from taking effect */
  warnings: string[];
}

/**
 * A company's package (docs/design/contracts/10-release.md §10, "Packages"): the origin of the manifest,
 * corp.toml with the rule files that it names, certificates and release keys.
 *
 * The installer copies them to /etc/sbx as root's files. They are no conffiles: the company wants manual
 * changes there replaced. corp.toml is validated first, as a machine with these files would do it: services
 * of 500 laptops would refuse a mistake only after its roll-out.
 *
 * @throws {SbxError} `package.name_invalid`, `package.version_invalid`, `manifest.url.invalid`, `corp.*`,
 * `package.ca_invalid`, `package.file_invalid`, `package.releases_invalid`, `package.rule_file_outside`,
 * `release.*`
 */
export async function corpDeb(parts: CorpParts): Promise<CorpDeb> {
  const { name, version, manifestUrl, sourceDateEpoch } = parts;
  requireWord("name", name, NAME, "lower-case letters, digits, +, . and -");
  requireWord("version", version, VERSION, "a digit first, then letters, digits, ., + and ~");
  const { files, releases, needs, warnings } = await managedFiles(parts);
  const origin = originText({
    source: manifestUrl,
    packaged_at: new Date(sourceDateEpoch * 1000).toISOString(),
    package_version: version,
  });
  const paths = files.map(({ path }) => path);
  const deb: Deb = {
    control: {
      Package: name,
      Version: version,
      Architecture: "all",
      Maintainer: parts.maintainer,
      Depends: `sbx (>= ${parts.minSbx})`,
      Provides: "sbx-corp",
      Conflicts: "sbx-corp",
      Section: "admin",
      Priority: "optional",
      Description:
        "settings of this company for sbx\n Its rules, the certificates and keys that it trusts, and the images of its machines.",
    },
    scripts: { postinst: postinst(paths), postrm: postrm(paths) },
    files: [
      { path: "usr/share/sbx/manifest-origin.json", content: { text: origin } },
      ...files.map((file) => ({ ...file, path: `${SOURCE}/${file.path}` })),
      ...releases,
      { path: `usr/share/doc/${name}/copyright`, content: { text: copyright(name) } },
    ],
    sourceDateEpoch,
  };
  return { deb, needs, warnings };
}

/** Files for /etc/sbx, by their name there, after corp.toml was validated among them. */
async function managedFiles(
  { corp, ca, trust, files: more = [], releases: tree, check }: CorpParts,
): Promise<{ files: PackageFile[]; releases: PackageFile[] } & Pick<CorpDeb, "needs" | "warnings">> {
  const { file, document } = await loadCorp(corp);
  const { enforcement, sigma } = file.corp_rule_files;
  const rules = [enforcement, sigma].filter((path) => path !== undefined).map((path) => {
    if (RULE_FILE.test(path)) return { path, content: { copyOf: join(corp, "..", path) } };
    throw new SbxError("package.rule_file_outside", `corp.toml names ${path}, which no package can have`, {
      hint: "put the file below the folder of corp.toml; its path has letters, digits, ., _, - and /",
    });
  });
  const files: PackageFile[] = [{ path: "corp.toml", content: { text: document.text } }, ...rules];
  if (ca !== undefined) files.push({ path: "ca.pem", content: { text: await readCertificates(ca) } });
  let keys: PublicKey[] = [];
  if (trust !== undefined) {
    const text = await Deno.readTextFile(trust);
    keys = parseTrust(text, trust);
    files.push({ path: MANAGED_TRUST.slice(TARGET.length + 1), content: { text } });
  }
  for (const path of more) files.push(await readFurther(path, files));
  const releases = await readReleases(tree, keys, file.release);
  const sources = new Map(more.map((path): [string, string] => [`${TARGET}/${basename(path)}`, path]));
  if (ca !== undefined) sources.set(`${TARGET}/ca.pem`, ca);
  const placeOf = (path: string) => sources.has(path) ? resolve(sources.get(path)!) : undefined;

  const { problems, warnings } = await validateCorp(corp, check(placeOf));
  const isThere = ({ path }: NamedFile) => files.some((each) => `${TARGET}/${each.path}` === path);
  const missing = corpFilePaths({ file, document }, TARGET).filter((each) => !isThere(each));
  // A secret is in no package, which everybody can read; other files of /etc/sbx are the package's to bring.
  const [forgotten, needs] = [true, false].map((isForgotten) =>
    missing.filter(({ path, isSecret }) => (!isSecret && path.startsWith(`${TARGET}/`)) === isForgotten)
  );
  problems.push(...forgotten.map(({ place, key, path }) => `${place}: ${key}: the package has no ${path}`));
  if (problems.length > 0) {
    throw new SbxError("corp.invalid", problems.join("\n"), {
      hint: forgotten.length > 0
        ? "give certificates with --ca, release keys with --release-trust, and other files with --file"
        : "correct the file at that line",
    });
  }
  if (tree !== undefined && !file.release.install_profiles) {
    warnings.push("without install_profiles in [release], profiles of --releases are only offered to people");
  }
  return { files, releases, warnings, needs: needs.map(({ key, path }) => ({ key, path })) };
}

/**
 * A published tree, verified with the keys that machines get.
 *
 * @param dir undefined: the package has none
 * @throws {SbxError} `package.releases_invalid`
 */
async function readReleases(
  dir: string | undefined,
  keys: readonly PublicKey[],
  { channels_url }: { channels_url?: string },
): Promise<PackageFile[]> {
  const refuse = (problem: string, hint: string) =>
    new SbxError("package.releases_invalid", problem, { hint });
  if (dir === undefined) {
    if (channels_url !== RELEASES_URL) return [];
    throw refuse(
      "corp.toml names releases that are in the package, and it gets none",
      "give the published tree with --releases",
    );
  }
  if (channels_url !== RELEASES_URL) {
    throw refuse(
      "machines would not read the releases of the package",
      `write into [release] of corp.toml: channels_url = "${RELEASES_URL}"`,
    );
  }
  if (keys.length === 0) {
    throw refuse(
      "machines could not verify the releases of the package",
      "give their keys with --release-trust",
    );
  }
  const { report, tree } = await verifyTree(dir, { keys: { hmac: [], trusted: keys } });
  const bad = report.results.find(({ ok }) => !ok);
  if (bad || !tree) {
    throw refuse(
      `${dir}: ${bad ? `${bad.subject}: ${bad.detail}` : "no index can be read"}`,
      "give a folder that sbx-admin release publish wrote, and the keys that signed it",
    );
  }
  const files: PackageFile[] = [];
  let bytes = 0;
  for (const name of [...await filesOfReleases(tree.releases), INDEX_NAME, INDEX_ENVELOPE_NAME]) {
    const info = await Deno.stat(join(dir, name)).catch(() => null);
    if (!info?.isFile) continue;
    bytes += info.size;
    files.push({ path: `${RELEASES}/${name}`, content: { copyOf: join(dir, name) } });
  }
  if (bytes <= RELEASES_MAX) return files;
  throw refuse(
    `the releases in ${dir} have more than 1 GiB`,
    "publish profiles in a channel of their own, and images by the manifest's address",
  );
}

/** @throws {SbxError} `package.file_invalid` */
async function readFurther(path: string, files: PackageFile[]): Promise<PackageFile> {
  const name = basename(path);
  const refuse = (problem: string, hint: string) =>
    new SbxError("package.file_invalid", `${path}: ${problem}`, { hint });
  if (!FILE_NAME.test(name)) {
    throw refuse("no name for a file of a package", "its characters are letters, digits, ., _ and -");
  }
  if (files.some((each) => each.path === name)) {
    throw refuse(`the package has ${name} already`, "give the file another name");
  }
  const { isFile, size, mode } = await Deno.stat(path).catch(() => ({ isFile: false, size: 0, mode: 0 }));
  if (!isFile || size > FILE_MAX) {
    throw refuse("not a regular file of at most 16 MiB", "give the path of one file, and repeat --file");
  }
  const text = await Deno.readTextFile(path);
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) {
    throw refuse(
      "it holds a private key",
      "every user of a machine can read a package: give keys another way",
    );
  }
  // A program stays one, such as the one that logs in at a proxy.
  return { path: name, content: { copyOf: path }, ...(((mode ?? 0) & 0o111) !== 0 && { mode: 0o755 }) };
}

async function readCertificates(path: string): Promise<string> {
  const text = await Deno.readTextFile(path).catch(() => "");
  if (text.includes("-----BEGIN CERTIFICATE-----") && !text.includes("PRIVATE KEY")) return text;
  throw new SbxError("package.ca_invalid", `${path} does not hold certificates in PEM alone`, {
    hint: "give the root certificates that corp.toml names in network.extra_ca_file, without any key",
  });
}

function requireWord(what: string, word: string, shape: RegExp, rule: string): void {
  if (shape.test(word)) return;
  throw new SbxError(`package.${what}_invalid`, `"${word}" is no ${what} of a Debian package`, {
    hint: `its characters are ${rule}`,
  });
}

function postinst(paths: string[]): string {
  return `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  for file in ${paths.join(" ")}; do
    mkdir -p "$(dirname "${TARGET}/$file")"
    cp "/${SOURCE}/$file" "${TARGET}/.$$.tmp"
    if [ -x "/${SOURCE}/$file" ]; then mode=0755; else mode=0644; fi
    chmod "$mode" "${TARGET}/.$$.tmp"
    mv -f "${TARGET}/.$$.tmp" "${TARGET}/$file"
  done
  ${FETCH_ASSETS.replaceAll("\n", "\n  ").trimEnd()}
fi
`;
}

function postrm(paths: string[]): string {
  return `#!/bin/sh
set -e
if [ "$1" = remove ] || [ "$1" = purge ]; then
  for file in ${paths.join(" ")}; do
    rm -f "${TARGET}/$file"
    rmdir --ignore-fail-on-non-empty --parents "$(dirname "${TARGET}/$file")" 2>/dev/null || true
  done
fi
`;
}

function copyright(name: string): string {
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ${name}

Files: *
Copyright: the company that made this package
License: proprietary
 For the machines of this company.
`;
}

/** Characters that need no quoting in the installer's shell script and JSON. */
const PLAIN = /^[A-Za-z0-9._~:/?#[\]@!&'()*+,;=%-]+$/;

/**
 * Text of a packaged `manifest-origin.json` (docs/design/contracts/10-release.md §10, "Manifest origin and
 * update"), one field a line: the installer reads it with sed.
 *
 * @throws {SbxError} `manifest.url.invalid`
 */
function originText(
  { source, packaged_at, package_version }: { source: string; packaged_at: string; package_version: string },
): string {
  const url = URL.parse(source);
  const isRight = url !== null && ["https:", "file:"].includes(url.protocol) && !url.username &&
    !url.password;
  if (!isRight || !PLAIN.test(source)) {
    throw new SbxError("manifest.url.invalid", `the address "${source}" cannot be in a package`, {
      hint: "use https:// or file://, without a password: every user of the machine can read it",
    });
  }
  const origin = {
    schema: "sbx.manifest_origin.v1",
    origin: "package",
    source,
    packaged_at,
    package_version,
  };
  return JSON.stringify(origin, null, 2) + "\n";
}
