import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { loadCorp } from "../../config/corp/mod.ts";
import { MANAGED_TRUST, parseTrust } from "../../release/mod.ts";
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

/**
 * A company's package (docs/design/contracts/10-release.md §10, "Packages"): the origin of the manifest,
 * corp.toml with the rule files that it names, certificates and release keys.
 *
 * The installer copies them to /etc/sbx as root's files. They are no conffiles: the company wants manual
 * changes there replaced.
 *
 * @throws {SbxError} `package.name_invalid`, `package.version_invalid`, `manifest.url.invalid`, `corp.*`,
 * `package.ca_invalid`, `package.rule_file_outside`, `release.*`
 */
export async function corpDeb(parts: CorpParts): Promise<Deb> {
  const { name, version, manifestUrl, sourceDateEpoch } = parts;
  requireWord("name", name, NAME, "lower-case letters, digits, +, . and -");
  requireWord("version", version, VERSION, "a digit first, then letters, digits, ., + and ~");
  const files = await managedFiles(parts);
  const origin = originText({
    source: manifestUrl,
    packaged_at: new Date(sourceDateEpoch * 1000).toISOString(),
    package_version: version,
  });
  const paths = files.map(({ path }) => path);
  return {
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
      ...files.map(({ path, content }) => ({ path: `${SOURCE}/${path}`, content })),
      { path: `usr/share/doc/${name}/copyright`, content: { text: copyright(name) } },
    ],
    sourceDateEpoch,
  };
}

/** Files for /etc/sbx, by their name there. */
async function managedFiles({ corp, ca, trust }: CorpParts): Promise<PackageFile[]> {
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
  if (trust !== undefined) {
    const text = await Deno.readTextFile(trust);
    parseTrust(text, trust);
    files.push({ path: MANAGED_TRUST.slice(TARGET.length + 1), content: { text } });
  }
  return files;
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
    chmod 0644 "${TARGET}/.$$.tmp"
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
