import { createHmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto";
import { SbxError } from "../../base/error/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { KEYS_MAX } from "../limit.ts";
import type { BinaryEntry, BundleEntry, ManifestRecord, PackageEntry, ProfileEntry } from "../schema.ts";

/** Key of HMAC-SHA-256. */
export interface HmacKey {
  id: string;
  bytes: Uint8Array;
}

/**
 * Records of the release graph. Their strict shapes have no two in common, so the HMAC of one kind is never
 * valid for another kind. A record does not name its channel: the manifest that it pins by digest does.
 */
export type SignedRecord = ManifestRecord | PackageEntry | BinaryEntry | ProfileEntry | BundleEntry;

/** A record that has no HMAC yet. */
export type UnsignedRecord<R extends SignedRecord> = R extends { digest: unknown }
  ? Omit<R, "digest"> & { digest: Omit<R["digest"], "hmac"> }
  : Omit<R, "hmac">;

/** Key id, and 32 to 64 bytes in hex. */
const LINE = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63}):((?:[0-9a-f]{2}){32,64})$/;

/**
 * Parses a file of HMAC keys, one `<key id>:<hex>` a line. The first one signs;
 * several verify while they rotate.
 *
 * @throws {SbxError} `release.keys.invalid`: names the line, and never its content
 */
export function parseHmacKeys(text: string, path: string): HmacKey[] {
  const invalid = (line: number, problem: string) =>
    new SbxError("release.keys.invalid", `${path}:${line}: ${problem}`, {
      hint: "write <key id>:<hex> on each line, with 64 to 128 hex characters in lower case",
    });
  const keys: HmacKey[] = [];
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const [, id, hex] = LINE.exec(line) ?? [];
    if (id === undefined) throw invalid(at + 1, "this is not a key");
    if (keys.some((key) => key.id === id)) throw invalid(at + 1, `the key id "${id}" is there twice`);
    if (keys.length === KEYS_MAX) throw invalid(at + 1, `more than ${KEYS_MAX} keys`);
    keys.push({ id, bytes: Uint8Array.fromHex(hex) });
  }
  if (keys.length === 0) throw invalid(1, "there is no key");
  return keys;
}

/**
 * HMAC-SHA-256 in hex over the canonical JSON of a record without its `hmac`
 * (docs/design/contracts/10-release.md §10, "HMAC").
 */
export function recordHmac(key: HmacKey, record: SignedRecord | UnsignedRecord<SignedRecord>): string {
  return createHmac("sha256", key.bytes).update(canonicalJson(withoutHmac(record))).digest("hex");
}

/** Puts the HMAC into a record. */
export function signRecord<R extends SignedRecord>(key: HmacKey, record: R | UnsignedRecord<R>): R {
  const hmac = recordHmac(key, record as SignedRecord);
  const signed = "digest" in record ? { ...record, digest: { ...record.digest, hmac } } : { ...record, hmac };
  return signed as unknown as R;
}

/**
 * Id of the key that verifies a record, `undefined` if none does. Every key is tried, in constant time each.
 */
export function findHmacKey(keys: readonly HmacKey[], record: SignedRecord): string | undefined {
  const claimed = Uint8Array.fromHex("digest" in record ? record.digest.hmac : record.hmac);
  let found: string | undefined;
  for (const key of keys) {
    if (timingSafeEqual(Uint8Array.fromHex(recordHmac(key, record)), claimed)) found = key.id;
  }
  return found;
}

/**
 * Refuses a record that no key verifies.
 *
 * @param what names the record in the error, such as `release 1.2.0 of channel "stable"`
 * @returns id of the key that verified it
 * @throws {SbxError} `release.hmac.invalid`
 */
export function requireHmac(keys: readonly HmacKey[], record: SignedRecord, what: string): string {
  const id = findHmacKey(keys, record);
  if (id !== undefined) return id;
  throw new SbxError("release.hmac.invalid", `no release key verifies ${what}`, {
    hint: `it was changed, or signed with a key that is not among ${keys.map(({ id }) => id).join(", ")}; ` +
      "nothing was installed",
  });
}

function withoutHmac(record: SignedRecord | UnsignedRecord<SignedRecord>): unknown {
  const drop = ({ hmac: _, ...rest }: Record<string, unknown>) => rest;
  return "digest" in record ? { ...record, digest: drop(record.digest) } : drop({ ...record });
}
