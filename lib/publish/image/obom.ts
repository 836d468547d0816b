/** The OBOM of an image: its Debian and npm packages, and its files. */
import type { Arch } from "../../base/arch/mod.ts";
import { GUEST_VERSION_PROPERTY, type Suite } from "../../config/profile/mod.ts";
import { debianLicense, hashUuid } from "../../release/sbom/mod.ts";
import { GUEST_VERSION } from "../../machine/guest/wire/mod.ts";
import { archNames } from "./arch.ts";
import { GUEST_DENO_VERSION, GUEST_PROGRAMS } from "./guest.ts";
import { keyOf, type LockedPackage } from "./npm.ts";
import type { OwnFile, OwnPackage } from "./own/component.ts";

/**
 * Input of an OBOM, which describes the base image without additions of a session
 * (docs/design/contracts/10-release.md §10).
 */
export interface ObomInput {
  arch: Arch;
  /** Debian release of the rootfs */
  suite: Suite;
  /** version of the generating `sbx-admin` */
  generatorVersion: string;
  /** BLAKE3 of the described rootfs */
  rootfsHash: string;
  kernelVersion: string;
  /** `/var/lib/dpkg/status` of the rootfs */
  status: string;
  /** lines `<package>/copyright:License: <name>` */
  licenses: string;
  /** npm packages of the rootfs */
  npm: LockedPackage[];
  /** packages of pip, cargo and go, and a company's own Debian packages */
  own?: OwnPackage[];
  /** a company's own files, and the script that has changed the tree */
  files?: OwnFile[];
  /** lines of {@linkcode addedLines} */
  added?: string[];
}

/** Licences of npm packages that are SPDX expressions of ids. */
const NPM_LICENSE = /^(?!UNLICENSED|SEE )\(?[A-Za-z0-9.-]+(?: (?:OR|AND|WITH) [A-Za-z0-9.-]+)*\)?$/;

/** The root file system that an OBOM describes, and the generator's version. */
interface Described {
  name: string;
  version: string;
  rootfsHash: string;
  generatorVersion: string;
  properties: { name: string; value: string }[];
}

/** CycloneDX 1.6 JSON of a root file system with components; same input, same text. */
export function obomDocument<C extends { "bom-ref": string }>(
  { name, version, rootfsHash, generatorVersion, properties }: Described,
  components: C[],
  dependencies: { ref: string; dependsOn: string[] }[] = [],
): string {
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${hashUuid(`${rootfsHash}${generatorVersion}`)}`,
    version: 1,
    metadata: {
      tools: { components: [{ type: "application", name: "sbx-admin", version: generatorVersion }] },
      component: {
        type: "operating-system",
        "bom-ref": "rootfs",
        name,
        version,
        hashes: [{ alg: "BLAKE3", content: rootfsHash }],
        properties: [{ name: "sbx:rootfs:blake3", value: rootfsHash }, ...properties],
      },
    },
    components,
    dependencies: [
      { ref: "rootfs", dependsOn: components.map((each) => each["bom-ref"]) },
      ...dependencies,
    ],
  };
  return JSON.stringify(document, null, 2) + "\n";
}

/** Generates CycloneDX 1.6 JSON of the rootfs's packages, Deno and guest programs; same input, same text. */
export function generateObom(input: ObomInput): string {
  const { arch, suite, generatorVersion, rootfsHash, kernelVersion } = input;
  const components = [
    ...packageComponents(input),
    ...npmComponents(input),
    ...ownComponents(input),
    ...guestComponents(input),
  ];
  const properties = [
    { name: "sbx:rootfs:arch", value: arch },
    { name: "sbx:rootfs:suite", value: suite },
    { name: "sbx:kernel:version", value: kernelVersion },
    { name: GUEST_VERSION_PROPERTY, value: GUEST_VERSION },
    ...(input.added ?? []).map((value) => ({ name: "sbx:added", value })),
  ];
  const [name, version] = [`sbx-rootfs-${arch}`, rootfsHash.slice(0, 16)];
  return obomDocument(
    { name, version, rootfsHash, generatorVersion, properties },
    components,
    dependenciesOf(input),
  );
}

function packageComponents(input: ObomInput) {
  const byPackage = licenseNames(input.licenses);
  const own = new Map(
    (input.own ?? []).filter(({ kind }) => kind === "deb").map((each) => [each.name, each]),
  );
  return installedPackages(input.status).map((each) => {
    const { name, version, maintainer } = each;
    const purl = debianPurl(each, input);
    return {
      type: "library",
      "bom-ref": purl,
      ...(maintainer && { supplier: { name: maintainer.replace(/ <.*/, "") } }),
      name,
      version,
      ...(own.get(name)?.version === version && ownHash(own.get(name)!.hash)),
      ...licensesOf([...byPackage.get(name) ?? []].map(debianLicense)),
      purl,
    };
  });
}

function debianPurl(
  { name, version, arch }: { name: string; version: string; arch: string },
  { suite }: ObomInput,
): string {
  return `pkg:deb/debian/${encodeURIComponent(name)}@${
    encodeURIComponent(version)
  }?arch=${arch}&distro=${suite}`;
}

/**
 * One id where that is all, else one expression: files of a package have licences of
 * their own, and all of them hold.
 */
function licensesOf(expressions: string[]) {
  const unique = [...new Set(expressions)].sort();
  if (unique.length === 0) return {};
  if (unique.length === 1 && /^(?!LicenseRef)[^\s()]+$/.test(unique[0])) {
    return { licenses: [{ license: { id: unique[0] } }] };
  }
  const parts = unique.length === 1 ? unique : unique.map((each) => / OR /.test(each) ? `(${each})` : each);
  return { licenses: [{ expression: parts.join(" AND ") }] };
}

/** Dependencies between the components; guest programs need Deno. */
function dependenciesOf(input: ObomInput) {
  const packages = installedPackages(input.status);
  const refs = new Map(packages.map((each) => [each.name, debianPurl(each, input)]));
  const locked = new Map(input.npm.map((each) => [keyOf(each), npmPurl(each)]));
  const guests = guestComponents(input);
  return [
    ...packages.map((each) => ({
      ref: debianPurl(each, input),
      dependsOn: each.depends.map((name) => refs.get(name)!),
    })),
    ...input.npm.map((each) => ({
      ref: npmPurl(each),
      dependsOn: (each.dependencies ?? []).flatMap((key) => locked.get(key) ?? []),
    })),
    ...guests.map((each) => ({
      ref: each["bom-ref"],
      dependsOn: each === guests[0] ? [] : [guests[0]["bom-ref"]],
    })),
  ];
}

/** Licences by package, from machine-readable copyright files, with Debian's short names. */
function licenseNames(lines: string): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const line of lines.split("\n")) {
    const [, name, license] = line.match(/^([a-z0-9.+-]+)\/copyright:License: *(\S.*)$/) ?? [];
    if (name) names.set(name, (names.get(name) ?? new Set()).add(license.trim()));
  }
  return names;
}

function npmPurl({ name, version }: LockedPackage): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

function npmComponents({ npm }: ObomInput) {
  return npm.map((each) => {
    const { name, version, integrity, license } = each;
    const purl = npmPurl(each);
    return {
      type: "library",
      "bom-ref": purl,
      name,
      version,
      hashes: [{
        alg: "SHA-512",
        content: Uint8Array.fromBase64(integrity.slice("sha512-".length)).toHex(),
      }],
      // npm's field is an SPDX expression by its rules, and any text in fact.
      ...(license &&
        (NPM_LICENSE.test(license) ? licensesOf([license]) : { licenses: [{ license: { name: license } }] })),
      purl,
    };
  });
}

/** Packages of pip, cargo and go, and own files. An own Debian package is among Debian's, with its hash. */
function ownComponents({ own = [], files = [] }: ObomInput) {
  return [
    ...own.filter(({ kind }) => kind !== "deb").map(({ kind, name, version, hash, license }) => {
      const purl = `pkg:${kind === "go" ? "golang" : kind === "pip" ? "pypi" : kind}/${name}@${
        encodeURIComponent(version)
      }`;
      return {
        type: "library",
        "bom-ref": purl,
        name,
        version,
        ...ownHash(hash),
        // Authors write any text.
        ...(license && { licenses: [{ license: { name: license } }] }),
        purl,
      };
    }),
    ...files.map(({ name, sha256 }) => ({
      type: "file",
      "bom-ref": `sbx:file:${name}`,
      name,
      hashes: [{ alg: "SHA-256", content: sha256 }],
    })),
  ];
}

/** SHA-256 in CycloneDX's form; Go's hash is of a list of files, which it has no name for. */
function ownHash(hash: string) {
  return hash.startsWith("sha256:")
    ? { hashes: [{ alg: "SHA-256", content: hash.slice("sha256:".length) }] }
    : { properties: [{ name: "sbx:go:sum", value: hash }] };
}

function guestComponents({ arch, generatorVersion }: ObomInput) {
  const deno = `pkg:npm/%40deno/linux-${archNames(arch).npm}-glibc@${GUEST_DENO_VERSION}`;
  return [
    {
      type: "application",
      "bom-ref": deno,
      name: "deno",
      version: GUEST_DENO_VERSION,
      licenses: [{ license: { id: "MIT" } }],
      purl: deno,
    },
    ...GUEST_PROGRAMS.map((name) => ({
      type: "application",
      "bom-ref": `sbx:${name}`,
      name,
      version: generatorVersion,
      licenses: [{ license: { id: "Apache-2.0" } }],
    })),
  ];
}

// Packages of a rootfs, by the status of its dpkg.

/** Fields used from one stanza of dpkg's status. */
interface DebianPackage {
  name: string;
  version: string;
  arch: string;
  maintainer?: string;
  /** names of packages, each the installed one of its alternatives */
  depends: string[];
}

/** Parses the installed packages of a dpkg status, sorted by name. */
export function installedPackages(status: string): DebianPackage[] {
  const field = (stanza: string, name: string) =>
    stanza.match(new RegExp(`^${name}: (.+)$`, "m"))?.[1].trim();
  const stanzas = status.split(/\n\n+/).filter((stanza) => field(stanza, "Status")?.endsWith(" installed"));
  const providers = new Map<string, string>();
  for (const stanza of stanzas) {
    const name = field(stanza, "Package")!;
    for (const each of names(field(stanza, "Provides"))) if (!providers.has(each)) providers.set(each, name);
  }
  for (const stanza of stanzas) providers.set(field(stanza, "Package")!, field(stanza, "Package")!);
  return stanzas.flatMap((stanza) => {
    const name = field(stanza, "Package"), version = field(stanza, "Version");
    const arch = field(stanza, "Architecture");
    if (!name || !version || !arch) return [];
    const groups = [field(stanza, "Pre-Depends"), field(stanza, "Depends")].flatMap((text) =>
      (text ?? "").split(",")
    );
    const depends = groups.flatMap((group) =>
      names(group, "|").flatMap((each) => providers.get(each) ?? []).slice(0, 1)
    );
    const unique = [...new Set(depends)].filter((each) => each !== name).sort();
    return [{ name, version, arch, maintainer: field(stanza, "Maintainer"), depends: unique }];
  }).sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.arch < b.arch ? -1 : 1);
}

/** Names in a list of dpkg's relations, without versions and architectures. */
function names(list = "", separator = ","): string[] {
  return list.split(separator).map((each) => each.trim().replace(/[\s:([].*$/, "")).filter(Boolean);
}
