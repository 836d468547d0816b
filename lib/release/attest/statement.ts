/** in-toto statements, version 1 (https://in-toto.io/Statement/v1). */
import { z } from "zod";

/** Predicates that sbx attests; the id is part of the bundle's name. */
export const PREDICATES = {
  provenance: "https://slsa.dev/provenance/v1",
  sbom: "https://spdx.dev/Document/v2.3",
  obom: "https://cyclonedx.org/bom",
} as const;
export type Kind = keyof typeof PREDICATES;

/**
 * How sbx is built: external parameters are the source and its commit; docs/guides/packages.md, "Reproducible
 * builds".
 */
const BUILD_TYPE = "urn:sbx:build-type:v1";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** A file that a statement is about. */
export const Subject = z.strictObject({
  name: z.string().min(1).max(256),
  digest: z.strictObject({ sha256, blake3: sha256.optional() }),
});
export type Subject = z.infer<typeof Subject>;

/** A parsed statement; its predicate is checked by the code that needs it. */
export const Statement = z.strictObject({
  _type: z.literal("https://in-toto.io/Statement/v1"),
  subject: z.array(Subject).length(1),
  predicateType: z.enum(Object.values(PREDICATES)),
  predicate: z.record(z.string(), z.unknown()),
});
export type Statement = z.infer<typeof Statement>;

/** A build, for its provenance. */
export interface Build {
  /** address of the sources, such as git+https://… */
  source: string;
  /** full hash of the commit */
  commit: string;
  /** the builder: an address that its readers know */
  builder: string;
  /** inputs of the build besides the sources */
  materials: Subject[];
  /** in ISO 8601; absent in a build that is to be repeated bit by bit */
  startedOn?: string;
  finishedOn?: string;
}

/** Something that a file was made of, with hashes by in-toto's names. */
export interface Input {
  name: string;
  digest: Record<string, string>;
}

/** SLSA provenance v1 of a file. @param inputs beside the materials of the whole build */
export function provenance(subject: Subject, build: Build, inputs: readonly Input[] = []): Statement {
  const { source, commit, builder, materials, startedOn, finishedOn } = build;
  const metadata = { ...(startedOn && { startedOn }), ...(finishedOn && { finishedOn }) };
  return statement(subject, "provenance", {
    buildDefinition: {
      buildType: BUILD_TYPE,
      externalParameters: { source, commit },
      resolvedDependencies: [
        { uri: `${source}@${commit}`, digest: { gitCommit: commit } },
        ...[...materials, ...inputs].map(({ name, digest }) => ({ name, digest })),
      ],
    },
    runDetails: {
      builder: { id: builder },
      ...(Object.keys(metadata).length > 0 && { metadata }),
    },
  });
}

/** A statement that an SBOM or OBOM describes a file. */
export function documentStatement(
  subject: Subject,
  kind: "sbom" | "obom",
  document: Record<string, unknown>,
): Statement {
  return statement(subject, kind, document);
}

function statement(subject: Subject, kind: Kind, predicate: Record<string, unknown>): Statement {
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [subject],
    predicateType: PREDICATES[kind],
    predicate,
  };
}
