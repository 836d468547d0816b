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
  readHeadsAt,
  readOwner,
  readStatements,
  verifyLedger,
} from "../../ledger/read/mod.ts";
import { Heads as ChainHeads } from "../../ledger/witness/mod.ts";
import type { BootStatement, ContractStatement, SessionStatement } from "../../session/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import {
  CERTIFICATE_TYPE,
  checkSeal,
  HEAD_TYPE,
  openSigned,
  SEAL_TYPE,
  type Signed,
} from "../../release/signing/mod.ts";
import type { PublicKey } from "../../release/mod.ts";

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
export const Heads = z.object(ChainHeads.shape);
export type Heads = z.infer<typeof Heads>;

/**
 * Seal of the record when the certificate was made; `none`: the session was
 * running, or its end is not proven.
 */
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
async function readFacts(path: string, heads: Heads): Promise<Facts> {
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
function parseCertificate(text: string, source: string): Certificate {
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

/** A certificate that holds. */
export interface VerifiedCertificate {
  certificate: Certificate;
  /** id of the key that signed it */
  key: string;
}

/**
 * Verifies a certificate offline.
 *
 * @param trusted keys that may have signed it
 * @throws {SbxError} `attest.invalid`, `attest.untrusted`, `certify.invalid`, `release.invalid`
 */
export async function verifyCertificate(
  bytes: Uint8Array,
  trusted: readonly PublicKey[],
  source: string,
): Promise<VerifiedCertificate> {
  const signed = await openTrusted(bytes, trusted, source);
  if (signed.type !== CERTIFICATE_TYPE) {
    throw new SbxError("certify.invalid", `${source} is not a certificate, but a ${signed.type}`, {
      hint: "sbx verify SESSION --head FILE compares a record with a seal or a head",
    });
  }
  return { certificate: parseCertificate(signed.text, source), key: signed.key.id };
}

/**
 * Compares a certificate with a record, which may be longer by now: session, chains up to the
 * certificate's heads, and every fact.
 *
 * @throws {SbxError} `certify.mismatch`
 */
export async function compareWithLedger(
  { predicate }: Certificate,
  path: string,
  trusted: readonly PublicKey[],
): Promise<void> {
  const { session_id, ledger, facts } = predicate;
  await requireSame(path, session_id, ledger, trusted);
  if (canonicalJson(await readFacts(path, ledger)) !== canonicalJson(facts)) {
    throw mismatch(path, "the certificate says something else than the record");
  }
}

/**
 * Compares a record with heads that were taken elsewhere: a head, a seal or a certificate.
 *
 * @throws {SbxError} `certify.mismatch`, `attest.invalid`, `attest.untrusted`, `certify.invalid`
 */
export async function compareWithHead(
  path: string,
  bytes: Uint8Array,
  trusted: readonly PublicKey[],
  source: string,
): Promise<Heads> {
  const { session_id, heads } = readSignedHeads(await openTrusted(bytes, trusted, source), source);
  await requireSame(path, session_id, heads, trusted);
  return heads;
}

/** @throws {SbxError} `attest.untrusted`: another key signed it */
async function openTrusted(
  bytes: Uint8Array,
  trusted: readonly PublicKey[],
  source: string,
): Promise<Signed> {
  const signed = await openSigned(bytes, trusted, source);
  if (signed.key.trusted) return signed;
  throw new SbxError(
    "attest.untrusted",
    `${source} was signed with the key ${signed.key.id.slice(0, 64)}, which is not trusted`,
    {
      hint: "give the public key of the machine that made it with --key, got from there by a safe way",
    },
  );
}

async function requireSame(
  path: string,
  session: string,
  expected: Heads,
  trusted: readonly PublicKey[],
): Promise<void> {
  const { ok, first_bad } = await verifyLedger(path, undefined, (seal) => checkSeal(seal, trusted, false));
  if (!ok) throw mismatch(path, `the record is invalid: ${first_bad?.reason}`);
  const owner = await readOwner(path);
  if (owner !== session) throw mismatch(path, `it is the record of session ${owner}, not of ${session}`);
  const found = await readHeadsAt(path, expected);
  for (const [chain, length, hash] of CHAINS) {
    if (found[hash] === expected[hash]) continue;
    const what = found[hash] === "" ? "has fewer" : "has other";
    throw mismatch(path, `the record ${what} ${chain} than the ${expected[length]} that were signed`);
  }
}

const CHAINS = [
  ["events", "events", "head_hash"],
  ["outcomes", "outcomes", "outcome_hash"],
  ["findings, answers and statements", "journal", "journal_hash"],
] as const;

function mismatch(path: string, problem: string): SbxError {
  return new SbxError("certify.mismatch", `${path} differs from the signed certificate: ${problem}`, {
    hint: "the record was changed after it was signed, or this is another one; keep both files",
  });
}

/** A head or a seal; other fields are for people. */
const HeadFile = z.looseObject({ session_id: z.string(), ...Heads.shape });

/** Heads of a signed head, seal or certificate. @throws {SbxError} `certify.invalid` */
function readSignedHeads(
  { type, text }: Signed,
  source: string,
): { session_id: string; heads: Heads } {
  if (type === CERTIFICATE_TYPE) {
    const { session_id, ledger } = parseCertificate(text, source).predicate;
    return { session_id, heads: ledger };
  }
  try {
    if (type === HEAD_TYPE || type === SEAL_TYPE) {
      const { session_id, ...heads } = HeadFile.parse(JSON.parse(text));
      return { session_id, heads: Heads.parse(heads) };
    }
  } catch {
    // Below.
  }
  throw new SbxError("certify.invalid", `${source} has no heads of a record`, {
    hint: "give a seal, a collected head or a certificate",
  });
}
