import { blake3 } from "../../base/hash/mod.ts";

/** One thing that the program is made of. */
export interface Component {
  /** unique within the document, such as a purl */
  id: string;
  name: string;
  version?: string;
  /** SPDX expression; absent if nothing declares one */
  license?: string;
  /** where its bytes come from */
  download?: string;
  purl?: string;
  checksums?: { algorithm: "SHA256" | "SHA512"; value: string }[];
  purpose: "APPLICATION" | "LIBRARY" | "FRAMEWORK";
  /** other components, by id */
  needs?: { id: string; how: "DEPENDS_ON" | "STATIC_LINK" | "DYNAMIC_LINK" | "CONTAINS" }[];
  comment?: string;
}

/** Input of an SBOM. */
export interface SbomInput {
  /** the described program; the first one */
  components: [Component, ...Component[]];
  /** version of the generator */
  generatorVersion: string;
  /** SOURCE_DATE_EPOCH, in seconds since 1970 */
  created: number;
}

/**
 * Generates SPDX 2.3 JSON (docs/design/contracts/10-release.md §10, "Release pipeline"); same input, same
 * text.
 */
export function generateSpdx({ components, generatorVersion, created }: SbomInput): string {
  const [root, ...others] = components;
  const ids = new Map(components.map(({ id }) => [id, `SPDXRef-${elementName(id)}`]));
  const sorted = [root, ...others.sort((a, b) => a.id < b.id ? -1 : 1)];
  const content = {
    creationInfo: {
      created: new Date(created * 1000).toISOString().replace(".000Z", "Z"),
      creators: [`Tool: sbx-${generatorVersion}`],
    },
    packages: sorted.map((component) => packageOf(component, ids.get(component.id)!)),
    relationships: [
      relationship("SPDXRef-DOCUMENT", "DESCRIBES", ids.get(root.id)!),
      ...sorted.flatMap(({ id, needs = [] }) =>
        needs.map((need) => relationship(ids.get(id)!, need.how, refOf(ids, need.id)))
      ),
    ],
  };
  return JSON.stringify(
    {
      spdxVersion: "SPDX-2.3",
      dataLicense: "CC0-1.0",
      SPDXID: "SPDXRef-DOCUMENT",
      name: `${root.name}-${root.version}`,
      documentNamespace: `urn:uuid:${hashUuid(JSON.stringify(content))}`,
      ...content,
    },
    null,
    2,
  ) + "\n";
}

function packageOf(component: Component, SPDXID: string) {
  const { name, version, license, download, purl, checksums, purpose, comment } = component;
  return {
    SPDXID,
    name,
    ...(version !== undefined && { versionInfo: version }),
    supplier: "NOASSERTION",
    downloadLocation: download ?? "NOASSERTION",
    filesAnalyzed: false,
    ...(checksums && {
      checksums: checksums.map(({ algorithm, value }) => ({ algorithm, checksumValue: value })),
    }),
    licenseConcluded: "NOASSERTION",
    licenseDeclared: license ?? "NOASSERTION",
    copyrightText: "NOASSERTION",
    primaryPackagePurpose: purpose,
    ...(purl !== undefined && {
      externalRefs: [{
        referenceCategory: "PACKAGE-MANAGER",
        referenceType: "purl",
        referenceLocator: purl,
      }],
    }),
    ...(comment !== undefined && { comment }),
  };
}

function relationship(from: string, relationshipType: string, to: string) {
  return { spdxElementId: from, relationshipType, relatedSpdxElement: to };
}

function refOf(ids: Map<string, string>, id: string): string {
  const ref = ids.get(id);
  if (ref === undefined) throw new Error(`an SBOM names ${id}, which is not one of its components`);
  return ref;
}

/**
 * Name of an element: letters, digits, `.` and `-`; a hash of the id keeps distinct ids
 * distinct.
 */
function elementName(id: string): string {
  const plain = id.replace(/[^A-Za-z0-9.-]+/g, "-");
  return plain === id ? plain : `${plain}-${hashUuid(id).slice(0, 8)}`;
}

/** UUID (version 8, RFC 9562) of a text, so that the same content has the same UUID. */
export function hashUuid(text: string): string {
  const hex = blake3(text);
  const variant = "89ab"[parseInt(hex[16], 16) & 3];
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
