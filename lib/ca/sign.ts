/** Makes certificates. Importing this is slow: only `ca.ts` and `store.ts` do, when they need it. */
// The library needs it before anything else of it is loaded.
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { SbxError } from "../base/error/mod.ts";
import type { Leaf } from "./ca.ts";
import { fromPem, toPem } from "./pem.ts";
import type { CaPair } from "./store.ts";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 86_400_000;
/** A guest's clock may be years behind: the CA is as old as that. */
const CA_PAST_DAYS = 5 * 365;
const CA_FUTURE_DAYS = 10 * 365;
/** Clients refuse leaves that are good for more than 398 days in all. */
const LEAF_PAST_DAYS = 180;
const LEAF_FUTURE_DAYS = 200;

/** Makes a new authority: key and certificate, PEM. */
export async function makeAuthority(): Promise<{ key: string; certificate: string }> {
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
 * A function that signs certificates for names and addresses. They share one key, which lives as long as this process.
 *
 * @throws {SbxError} `ca.invalid` when the key does not belong to the certificate
 */
export async function leafSigner({ key, certificate }: CaPair): Promise<(name: string) => Promise<Leaf>> {
  const authority = new x509.X509Certificate(certificate);
  const authorityKey = await importKey(key, authority);
  const leafKeys = await newKeys();
  const leafKey = await keyPem(leafKeys.privateKey);
  const identifier = await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey);
  return async (name) => {
    const isAddress = /^[0-9.]+$/.test(name) || name.includes(":");
    const leaf = await x509.X509CertificateGenerator.create({
      serialNumber: serial(),
      // A common name has at most 64 characters (RFC 5280); clients look at the alternative name.
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

/** The authority's key, after it has signed something that the certificate verifies. */
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
    throw invalid(cause);
  }
  throw invalid();
}

function invalid(cause?: unknown): SbxError {
  return new SbxError("ca.invalid", "the CA's key and certificate do not belong together", {
    cause,
    hint: "sbx-admin ca rotate makes a new pair; VMs trust it from their next start",
  });
}

function validity(pastDays: number, futureDays: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - pastDays * DAY_MS), notAfter: new Date(now + futureDays * DAY_MS) };
}

/** 16 random bytes, positive (RFC 5280 §4.1.2.2). */
function serial(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0] = bytes[0] & 0x7f | 0x40;
  return bytes.toHex();
}
