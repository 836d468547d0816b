/** Rules of SPDX 2.3 that tie parts of a document together. */
import { z } from "zod";

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
    .filter((id) => !known.has(id)).map((id) => `a relationship names ${id}, which is no element`);
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
      : [`${SPDXID}: "${licenseDeclared}" is no SPDX licence`],
    ...checksums.filter(({ algorithm, checksumValue }) =>
      checksumValue.length !== CHECKSUM_LENGTHS[algorithm]
    ).map(({ algorithm }) => `${SPDXID}: its ${algorithm} has the wrong length`),
    ...externalRefs?.[0].referenceLocator.startsWith("pkg:npm/") &&
        (checksums.length === 0 || licenseDeclared === NOASSERTION || downloadLocation === NOASSERTION)
      ? [`${SPDXID}: an npm package needs checksum, licence and address`]
      : [],
  ]);
}
