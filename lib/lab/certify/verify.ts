import { SbxError } from "../../base/error/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { CERTIFICATE_TYPE, checkSeal, openSigned, type Signed } from "../../release/signing/mod.ts";
import { readHeadsAt, readOwner, verifyLedger } from "../../ledger/read/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { type Certificate, type Heads, parseCertificate, readFacts } from "./certificate.ts";
import { readSignedHeads } from "./head.ts";

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
 * Compares a certificate with a record, which may be longer by now: session, chains up to the certificate's heads, and every
 * fact.
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
  return new SbxError("certify.mismatch", `${path} is not what was signed: ${problem}`, {
    hint: "the record was changed after it was signed, or this is another one; keep both files",
  });
}
