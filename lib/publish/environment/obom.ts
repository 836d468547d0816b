/** The OBOM of an environment: its packages, in CycloneDX. */
import type { Arch } from "../../base/arch/mod.ts";
import { debianLicense } from "../../release/sbom/mod.ts";
import { obomDocument } from "../image/mod.ts";
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
  const properties = [
    { name: "sbx:rootfs:arch", value: arch },
    { name: "sbx:image:digest", value: digest },
    ...(distribution.id ? [{ name: "sbx:rootfs:distribution", value: distribution.id }] : []),
    ...unread.map((path) => ({ name: "sbx:obom:unread", value: path })),
  ];
  return obomDocument(
    { name: reference, version: digest, rootfsHash, generatorVersion, properties },
    components,
  );
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
