import { blake3 } from "../base/hash/mod.ts";
import { type Arch, archNames } from "./arch.ts";
import { GUEST_DENO_VERSION, GUEST_PROGRAMS } from "./guest.ts";
import { GUEST_SUITE } from "./packages.ts";

/** What an OBOM is made from (spec.md, "Versioning" 7: the base image, and nothing that a session adds). */
export interface ObomInput {
  arch: Arch;
  /** version of the `sbx-admin` that builds it */
  generatorVersion: string;
  /** BLAKE3 of the rootfs that it describes */
  rootfsHash: string;
  kernelVersion: string;
  /** `/var/lib/dpkg/status` of the rootfs */
  status: string;
  /** lines `<package>/copyright:License: <name>` */
  licenses: string;
}

/** Name of the program that generates OBOMs, as `metadata.tools` says it. */
export const OBOM_GENERATOR = "sbx-admin";

/** CycloneDX 1.6 JSON of the root file system's packages, Deno and guest programs. The same input gives the same text. */
export function generateObom(input: ObomInput): string {
  const { arch, generatorVersion, rootfsHash, kernelVersion } = input;
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
          { name: "sbx:rootfs:suite", value: GUEST_SUITE },
          { name: "sbx:kernel:version", value: kernelVersion },
        ],
      },
    },
    components: [...packages(input), ...guestPrograms(input)],
  };
  return JSON.stringify(document, null, 2) + "\n";
}

/** One stanza of dpkg's status, as far as it is needed. */
export interface DebianPackage {
  name: string;
  version: string;
  arch: string;
  maintainer?: string;
}

/** The installed packages that a dpkg status names, by name. */
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

function packages({ status, licenses }: ObomInput) {
  const byPackage = licenseNames(licenses);
  return installedPackages(status).map(({ name, version, arch, maintainer }) => {
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${
      encodeURIComponent(version)
    }?arch=${arch}&distro=${GUEST_SUITE}`;
    const named = [...byPackage.get(name) ?? []].sort().map((license) => ({ license: { name: license } }));
    return {
      type: "library",
      "bom-ref": purl,
      ...(maintainer && { supplier: { name: maintainer.replace(/ <.*/, "") } }),
      name,
      version,
      ...(named.length && { licenses: named }),
      purl,
    };
  });
}

/** Licences by package, out of the copyright files that are machine-readable; Debian's own short names. */
function licenseNames(lines: string): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const line of lines.split("\n")) {
    const [, name, license] = line.match(/^([a-z0-9.+-]+)\/copyright:License: *(\S.*)$/) ?? [];
    if (name) names.set(name, (names.get(name) ?? new Set()).add(license.trim()));
  }
  return names;
}

function guestPrograms({ arch, generatorVersion }: ObomInput) {
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

/** A UUID (version 8, RFC 9562) out of a hash, so that the same image has the same one. */
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
