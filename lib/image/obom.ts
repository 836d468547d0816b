import type { Arch } from "../asset/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import type { Suite } from "../profile/mod.ts";
import { archNames } from "./arch.ts";
import { GUEST_DENO_VERSION, GUEST_PROGRAMS } from "./guest.ts";
import type { LockedPackage } from "./npm.ts";

/**
 * Input of an OBOM, which describes the base image without additions of a session (docs/contracts.md §10).
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
}

/** Name of the generator in `metadata.tools`. */
export const OBOM_GENERATOR = "sbx-admin";

/** Generates CycloneDX 1.6 JSON of the rootfs's packages, Deno and guest programs; same input, same text. */
export function generateObom(input: ObomInput): string {
  const { arch, suite, generatorVersion, rootfsHash, kernelVersion } = input;
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(`${rootfsHash}${generatorVersion}`)}`,
    version: 1,
    metadata: {
      tools: { components: [{ type: "application", name: OBOM_GENERATOR, version: generatorVersion }] },
      component: {
        type: "operating-system",
        "bom-ref": "rootfs",
        name: `sbx-rootfs-${arch}`,
        version: rootfsHash.slice(0, 16),
        hashes: [{ alg: "BLAKE3", content: rootfsHash }],
        properties: [
          { name: "sbx:rootfs:blake3", value: rootfsHash },
          { name: "sbx:rootfs:arch", value: arch },
          { name: "sbx:rootfs:suite", value: suite },
          { name: "sbx:kernel:version", value: kernelVersion },
        ],
      },
    },
    components: [...packageComponents(input), ...npmComponents(input), ...guestComponents(input)],
  };
  return JSON.stringify(document, null, 2) + "\n";
}

/** Fields used from one stanza of dpkg's status. */
export interface DebianPackage {
  name: string;
  version: string;
  arch: string;
  maintainer?: string;
}

/** Parses the installed packages of a dpkg status, sorted by name. */
export function installedPackages(status: string): DebianPackage[] {
  const field = (stanza: string, name: string) =>
    stanza.match(new RegExp(`^${name}: (.+)$`, "m"))?.[1].trim();
  return status.split(/\n\n+/).flatMap((stanza) => {
    const name = field(stanza, "Package"),
      version = field(stanza, "Version"),
      arch = field(stanza, "Architecture");
    if (!name || !version || !arch || !field(stanza, "Status")?.endsWith(" installed")) return [];
    return [{ name, version, arch, maintainer: field(stanza, "Maintainer") }];
  }).sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.arch < b.arch ? -1 : 1);
}

function packageComponents({ suite, status, licenses }: ObomInput) {
  const byPackage = licenseNames(licenses);
  return installedPackages(status).map(({ name, version, arch, maintainer }) => {
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${
      encodeURIComponent(version)
    }?arch=${arch}&distro=${suite}`;
    const entries = [...byPackage.get(name) ?? []].sort().map((license) => ({ license: { name: license } }));
    return {
      type: "library",
      "bom-ref": purl,
      ...(maintainer && { supplier: { name: maintainer.replace(/ <.*/, "") } }),
      name,
      version,
      ...(entries.length && { licenses: entries }),
      purl,
    };
  });
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

function npmComponents({ npm }: ObomInput) {
  return npm.map(({ name, version, integrity, license }) => {
    const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
    return {
      type: "library",
      "bom-ref": purl,
      name,
      version,
      hashes: [{
        alg: "SHA-512",
        content: Uint8Array.fromBase64(integrity.slice("sha512-".length)).toHex(),
      }],
      ...(license && { licenses: [{ license: { name: license } }] }),
      purl,
    };
  });
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

/** UUID (version 8, RFC 9562) from a hash, so that the same image has the same UUID. */
function uuidOf(text: string): string {
  const hex = blake3(text);
  const variant = "89ab"[parseInt(hex[16], 16) & 3];
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ]
    .join("-");
}
