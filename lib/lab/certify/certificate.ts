/**
 * Containment certificates (docs/guides/certify.md): an in-toto statement about one session, made of its
 * record alone, so that anyone with the record can make the same certificate and compare.
 */
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { BUILD_HASH, VERSION } from "../../base/version/mod.ts";
import {
  type Evidence,
  EVIDENCE_ROWS_MAX,
  readEvidence,
  readHeads,
  readStatements,
} from "../../ledger/read/mod.ts";
import type { BootStatement, ContractStatement, SessionStatement } from "../../session/mod.ts";

export const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
export const PREDICATE_TYPE = "urn:sbx:containment:v1";

/** A list with a limit, and how many rows did not fit. */
interface Limited<T> {
  rows: T[];
  omitted: number;
}

/** The part of a certificate that its record alone decides. */
export interface Facts {
  boots: Limited<BootStatement>;
  contracts: Limited<ContractStatement>;
  evidence: Evidence;
}

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/** Heads and lengths of the chains that a certificate, a head or a seal is about. */
export const Heads = z.object({
  events: z.int().nonnegative(),
  head_hash: Hash,
  outcomes: z.int().nonnegative(),
  outcome_hash: Hash,
  journal: z.int().nonnegative(),
  journal_hash: Hash,
});
export type Heads = z.infer<typeof Heads>;

/** Seal of the record when the certificate was made; `none`: the session was running, or its end is not proven. */
export const SEALS = ["signed", "unsigned", "none"] as const;

/** Shape of a certificate, as its readers need it. */
export const Certificate = z.strictObject({
  _type: z.literal(STATEMENT_TYPE),
  subject: z.tuple([z.strictObject({ name: z.string(), digest: z.strictObject({ blake3: Hash }) })]),
  predicateType: z.literal(PREDICATE_TYPE),
  predicate: z.strictObject({
    session_id: z.string(),
    made_at: z.iso.datetime(),
    made_by: z.strictObject({
      user: z.string(),
      device: z.string(),
      sbx: z.strictObject({ version: z.string(), build: z.string() }),
    }),
    ledger: z.strictObject({ ...Heads.shape, seal: z.enum(SEALS) }),
    facts: z.custom<Facts>((value) => typeof value === "object" && value !== null),
  }),
});
export type Certificate = z.infer<typeof Certificate>;

/** Makes the facts of a record up to these lengths. The record must be verified first. */
export async function readFacts(path: string, heads: Heads): Promise<Facts> {
  const statements = await readStatements<SessionStatement>(path, heads.journal);
  const of = <T extends SessionStatement>(kind: T["kind"]) =>
    limited(statements.filter((each): each is T => each.kind === kind));
  return {
    boots: of<BootStatement>("boot"),
    contracts: of<ContractStatement>("contract"),
    evidence: await readEvidence(path, heads),
  };
}

/** Makes the certificate of a verified record, as it is now. */
export async function makeCertificate(
  path: string,
  { session_id, seal, user, device }: {
    session_id: string;
    seal: typeof SEALS[number];
    user: string;
    device: string;
  },
): Promise<Certificate> {
  const heads = await readHeads(path);
  return {
    _type: STATEMENT_TYPE,
    subject: [{ name: `sbx-session/${session_id}`, digest: { blake3: heads.head_hash } }],
    predicateType: PREDICATE_TYPE,
    predicate: {
      session_id,
      made_at: new Date().toISOString(),
      made_by: { user, device, sbx: { version: VERSION, build: BUILD_HASH } },
      ledger: { ...heads, seal },
      facts: await readFacts(path, heads),
    },
  };
}

/** Parses the text of a certificate. @throws {SbxError} `certify.invalid` */
export function parseCertificate(text: string, source: string): Certificate {
  try {
    const certificate = Certificate.parse(JSON.parse(text));
    const { subject: [{ name, digest }], predicate: { session_id, ledger } } = certificate;
    if (name === `sbx-session/${session_id}` && digest.blake3 === ledger.head_hash) return certificate;
  } catch {
    // Below.
  }
  throw new SbxError("certify.invalid", `${source} is signed, but is not a containment certificate`, {
    hint: "sbx certify SESSION makes one",
  });
}

function limited<T>(all: T[]): Limited<T> {
  const rows = all.slice(0, EVIDENCE_ROWS_MAX);
  return { rows, omitted: all.length - rows.length };
}
