/** Writes the SPDX 2.3 document of a program, and checks one: its shape, its links and its packages. */
import { z } from "zod";
import { blake3 } from "../../base/hash/mod.ts";

/** A part of a program, such as a package or a library; the program itself is one too. */
export interface Component {
  /** unique within the document, such as a purl */
  id: string;
  name: string;
  version?: string;
  /** SPDX expression; absent if nothing declares one */
  license?: string;
  /** URL of its bytes */
  download?: string;
  purl?: string;
  checksums?: { algorithm: "SHA256" | "SHA512"; value: string }[];
  purpose: "APPLICATION" | "LIBRARY" | "FRAMEWORK";
  /** components that it uses, by id */
  needs?: { id: string; how: "DEPENDS_ON" | "STATIC_LINK" | "DYNAMIC_LINK" | "CONTAINS" }[];
  comment?: string;
}

/** Input of an SBOM. */
export interface SbomInput {
  /** the described program, then its parts */
  components: [Component, ...Component[]];
  /** version of the generator */
  generatorVersion: string;
  /** SOURCE_DATE_EPOCH, in seconds since 1970 */
  created: number;
}

/**
 * Generates SPDX 2.3 JSON (docs/design/contracts/10-release.md §10, "Release pipeline"). The same input has
 * the same text.
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

/** Name of an element: letters, digits, `.` and `-`; a hash of the id keeps distinct ids distinct. */
function elementName(id: string): string {
  const plain = id.replace(/[^A-Za-z0-9.-]+/g, "-");
  return plain === id ? plain : `${plain}-${hashUuid(id).slice(0, 8)}`;
}

/** UUID (version 8, RFC 9562) of a text: the same text has the same UUID. */
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

const NOASSERTION = "NOASSERTION";
/** Hexadecimal characters of a checksum. */
const CHECKSUM_LENGTHS = { SHA256: 64, SHA512: 128 };
const ID = z.string().regex(/^SPDXRef-[A-Za-z0-9.-]+$/);

const Package = z.strictObject({
  SPDXID: ID,
  name: z.string().min(1),
  versionInfo: z.string().min(1).optional(),
  supplier: z.string(),
  downloadLocation: z.literal(NOASSERTION).or(z.url()),
  filesAnalyzed: z.literal(false),
  checksums: z.array(z.strictObject({
    algorithm: z.enum(["SHA256", "SHA512"]),
    checksumValue: z.string().regex(/^[0-9a-f]+$/),
  })).min(1).optional(),
  licenseConcluded: z.string(),
  licenseDeclared: z.string(),
  copyrightText: z.string(),
  primaryPackagePurpose: z.enum(["APPLICATION", "LIBRARY", "FRAMEWORK"]),
  externalRefs: z.array(z.strictObject({
    referenceCategory: z.literal("PACKAGE-MANAGER"),
    referenceType: z.literal("purl"),
    referenceLocator: z.string().regex(/^pkg:[a-z]+\/\S+$/),
  })).length(1).optional(),
  comment: z.string().optional(),
});

const Document = z.strictObject({
  spdxVersion: z.literal("SPDX-2.3"),
  dataLicense: z.literal("CC0-1.0"),
  SPDXID: z.literal("SPDXRef-DOCUMENT"),
  name: z.string().min(1),
  documentNamespace: z.string().regex(/^urn:uuid:[0-9a-f-]{36}$/),
  creationInfo: z.strictObject({
    created: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    creators: z.array(z.string().regex(/^Tool: \S+$/)).min(1),
  }),
  packages: z.array(Package).min(1),
  relationships: z.array(z.strictObject({
    spdxElementId: ID,
    relationshipType: z.enum(["DESCRIBES", "DEPENDS_ON", "STATIC_LINK", "DYNAMIC_LINK", "CONTAINS"]),
    relatedSpdxElement: ID,
  })).min(1),
});
type Document = z.infer<typeof Document>;

/**
 * Finds faults of an SBOM of sbx: its shape, missing or duplicate ids, components that nothing needs, and
 * components of a registry without checksum or licence.
 *
 * @param isLicense tests an SPDX licence expression
 * @returns one line each; empty for a valid one
 */
export function spdxProblems(text: string, isLicense: (expression: string) => boolean): string[] {
  const read = Document.safeParse(JSON.parse(text));
  if (!read.success) return read.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  return [...linkProblems(read.data), ...packageProblems(read.data, isLicense)];
}

function linkProblems({ SPDXID, packages, relationships }: Document): string[] {
  const ids = [SPDXID, ...packages.map((each) => each.SPDXID)];
  const known = new Set<string>(ids);
  const double = ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `two elements are ${id}`);
  const unknown = relationships.flatMap((each) => [each.spdxElementId, each.relatedSpdxElement])
    .filter((id) => !known.has(id)).map((id) => `a relationship names ${id}, which is not an element`);
  const described = relationships.filter(({ relationshipType }) => relationshipType === "DESCRIBES").length;
  const reached = new Set<string>([SPDXID]);
  for (let size = 0; size !== reached.size;) {
    size = reached.size;
    for (const each of relationships) {
      if (reached.has(each.spdxElementId)) reached.add(each.relatedSpdxElement);
    }
  }
  return [
    ...double,
    ...unknown,
    ...described === 1 ? [] : [`the document describes ${described} packages, not one`],
    ...ids.filter((id) => !reached.has(id)).map((id) => `nothing needs ${id}`),
  ];
}

function packageProblems({ packages }: Document, isLicense: (expression: string) => boolean): string[] {
  return packages.flatMap(({ SPDXID, licenseDeclared, checksums = [], downloadLocation, externalRefs }) => [
    ...licenseDeclared === NOASSERTION || isLicense(licenseDeclared)
      ? []
      : [`${SPDXID}: "${licenseDeclared}" is not an SPDX licence`],
    ...checksums.filter(({ algorithm, checksumValue }) =>
      checksumValue.length !== CHECKSUM_LENGTHS[algorithm]
    ).map(({ algorithm }) => `${SPDXID}: its ${algorithm} has the wrong length`),
    ...externalRefs?.[0].referenceLocator.startsWith("pkg:npm/") &&
        (checksums.length === 0 || licenseDeclared === NOASSERTION || downloadLocation === NOASSERTION)
      ? [`${SPDXID}: an npm package needs checksum, licence and address`]
      : [],
  ]);
}
