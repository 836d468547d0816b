/** The OBOM of an environment: its packages, in CycloneDX. */
import type { Arch } from "../../base/arch/mod.ts";
import { debianLicense, hashUuid } from "../../release/sbom/mod.ts";
import { OBOM_GENERATOR } from "../image/mod.ts";
import type { Distribution } from "./packages.ts";
import type { FoundPackage } from "./rpm.ts";

/** Input of an environment's OBOM. */
export interface EnvironmentObomInput {
  arch: Arch;
  reference: string;
  digest: string;
  rootfsHash: string;
  generatorVersion: string;
  distribution: Distribution;
  packages: FoundPackage[];
  /** paths of databases whose packages are missing */
  unread: string[];
}

/** Generates CycloneDX 1.6 JSON of an environment; same input, same text. */
export function environmentObom(input: EnvironmentObomInput): string {
  const { arch, reference, digest, rootfsHash, generatorVersion, distribution, packages, unread } = input;
  const components = packages.map((each) => {
    const purl = purlOf(each, distribution);
    return {
      type: "library",
      "bom-ref": purl,
      name: each.name,
      version: each.version,
      ...(each.license && { licenses: [{ license: { name: debianLicense(each.license) } }] }),
      purl,
    };
  });
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${hashUuid(`${rootfsHash}${generatorVersion}`)}`,
    version: 1,
    metadata: {
      tools: { components: [{ type: "application", name: OBOM_GENERATOR, version: generatorVersion }] },
      component: {
        type: "operating-system",
        "bom-ref": "rootfs",
        name: reference,
        version: digest,
        hashes: [{ alg: "BLAKE3", content: rootfsHash }],
        properties: [
          { name: "sbx:rootfs:blake3", value: rootfsHash },
          { name: "sbx:rootfs:arch", value: arch },
          { name: "sbx:image:digest", value: digest },
          ...(distribution.id ? [{ name: "sbx:rootfs:distribution", value: distribution.id }] : []),
          ...unread.map((path) => ({ name: "sbx:obom:unread", value: path })),
        ],
      },
    },
    components,
    dependencies: [{ ref: "rootfs", dependsOn: components.map((each) => each["bom-ref"]) }],
  };
  return JSON.stringify(document, null, 2) + "\n";
}

function purlOf({ type, name, version, arch }: FoundPackage, { id, version: release }: Distribution): string {
  const part = encodeURIComponent;
  if (type === "golang") return `pkg:golang/${name.split("/").map(part).join("/")}@${part(version)}`;
  if (type === "npm" || type === "pypi") {
    return `pkg:${type}/${name.split("/").map(part).join("/")}@${part(version)}`;
  }
  const qualifiers = [
    ...arch ? [`arch=${part(arch)}`] : [],
    ...release ? [`distro=${part(`${id}-${release}`)}`] : [],
  ];
  return `pkg:${type}/${part(id ?? type)}/${part(name)}@${part(version)}${
    qualifiers.length ? `?${qualifiers.join("&")}` : ""
  }`;
}
