/** Creates certificates. Slow to load: only `ca.ts` imports it, on demand. */
// Must load before @peculiar/x509.
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { SbxError } from "../../base/error/mod.ts";
import { fromPem, toPem } from "./pem.ts";

/** Key and certificate as PEM. */
export interface CaPair {
  key: string;
  certificate: string;
  /** SHA-256 of the certificate, 64 hex characters */
  fingerprint: string;
}

/** Paths of one CA. */
export interface CaFiles {
  dir: string;
  key: string;
  certificate: string;
}

/** Certificate with its chain, and its key, both PEM. */
export interface Leaf {
  cert: string;
  key: string;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 86_400_000;
/** Days the CA is backdated, since a guest's clock may be years behind. */
const CA_PAST_DAYS = 5 * 365;
const CA_FUTURE_DAYS = 10 * 365;
/** Days a leaf is backdated; clients refuse leaves valid for more than 398 days in all. */
const LEAF_PAST_DAYS = 180;
const LEAF_FUTURE_DAYS = 200;

/** Creates a new authority: key and certificate, PEM. */
export async function createAuthority(): Promise<{ key: string; certificate: string }> {
  const keys = await newKeys();
  const id = crypto.randomUUID().slice(0, 8);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: `CN=sbx machine CA ${id}, O=sbx`,
    ...validity(CA_PAST_DAYS, CA_FUTURE_DAYS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { key: await keyPem(keys.privateKey), certificate: toPem(certificate.rawData, "CERTIFICATE") };
}

/**
 * Creates a function that signs certificates for names and addresses. All share one key, kept until this
 * process ends.
 *
 * @throws {SbxError} `ca.invalid`: the key does not match the certificate
 */
export async function createLeafSigner(
  { key, certificate }: CaPair,
): Promise<(name: string) => Promise<Leaf>> {
  const authority = new x509.X509Certificate(certificate);
  const authorityKey = await importKey(key, authority);
  const leafKeys = await newKeys();
  const leafKey = await keyPem(leafKeys.privateKey);
  const identifier = await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey);
  return async (name) => {
    const isAddress = /^[0-9.]+$/.test(name) || name.includes(":");
    const leaf = await x509.X509CertificateGenerator.create({
      serialNumber: serial(),
      // A common name has at most 64 characters (RFC 5280); clients use the alternative name.
      subject: `CN=${name.length <= 64 && !isAddress ? name : "sbx"}`,
      issuer: authority.subject,
      ...validity(LEAF_PAST_DAYS, LEAF_FUTURE_DAYS),
      signingAlgorithm: ALGORITHM,
      publicKey: leafKeys.publicKey,
      signingKey: authorityKey,
      extensions: [
        new x509.SubjectAlternativeNameExtension([{ type: isAddress ? "ip" : "dns", value: name }]),
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        identifier,
      ],
    });
    return { cert: toPem(leaf.rawData, "CERTIFICATE"), key: leafKey };
  };
}

function newKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

async function keyPem(key: CryptoKey): Promise<string> {
  return toPem(await crypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");
}

/** Imports the authority's key, and verifies a test signature with the certificate. */
async function importKey(pem: string, authority: x509.X509Certificate): Promise<CryptoKey> {
  const probe = new Uint8Array(32);
  try {
    const key = await crypto.subtle.importKey("pkcs8", fromPem(pem, "PRIVATE KEY")!, ALGORITHM, false, [
      "sign",
    ]);
    const signature = await crypto.subtle.sign(ALGORITHM, key, probe);
    const publicKey = await authority.publicKey.export(ALGORITHM, ["verify"]);
    if (await crypto.subtle.verify(ALGORITHM, publicKey, signature, probe)) return key;
  } catch (cause) {
    throw invalidError(cause);
  }
  throw invalidError();
}

function invalidError(cause?: unknown): SbxError {
  return new SbxError("ca.invalid", "the CA key does not match the CA certificate", {
    cause,
    hint: "create a new pair: sbx-admin ca rotate; VMs trust it from their next start",
  });
}

function validity(pastDays: number, futureDays: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - pastDays * DAY_MS), notAfter: new Date(now + futureDays * DAY_MS) };
}

/** Serial number: 16 random bytes, positive (RFC 5280 §4.1.2.2). */
function serial(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0] = bytes[0] & 0x7f | 0x40;
  return bytes.toHex();
}
