/** What the store keeps of a credential; nothing here is secret but what is sealed. */
import { canonicalJson } from "../event/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { isProvider, type Provider } from "./provider.ts";
import { REF } from "./ref.ts";

/** Most credentials of one store, those that were revoked included: the oldest of these make room. */
export const ENTRIES_MAX = 1000;
/** Most characters of a label. */
export const LABEL_MAX = 128;
/** Most hosts and VMs of one credential. */
const LIST_MAX = 64;

/** One credential as the store's file holds it. */
export interface StoredEntry {
  /** contracts.md §9 */
  ref: string;
  provider: Provider;
  label?: string;
  /** of `mcp` only: where it may be sent, `host` or `host:port` */
  hosts?: string[];
  /** ISO 8601 */
  created_at: string;
  /** by a person, or from a guest's traffic */
  source: "added" | "captured";
  /** any use of it is an alarm */
  decoy?: true;
  /** ids of the VMs that brought it; only they may use it while nobody has added it */
  vms?: string[];
  /** ISO 8601; the secret is gone then */
  revoked_at?: string;
  /** the secret: base64 of nonce and AES-256-GCM ciphertext, bound to the rest of the entry */
  sealed?: string;
}

/** Where the key of a store is. */
export interface KeyPlace {
  in: "keyring" | "file";
  /** tells a wrong key from a damaged file; says nothing of the key */
  id: string;
}

/** The store's file. */
export interface StoreFile {
  version: 1;
  key: KeyPlace;
  entries: StoredEntry[];
}

/** What a secret is bound to: an entry that was tampered with does not open. */
export function boundTo(
  { ref, provider, hosts, created_at, source, decoy, vms }: StoredEntry,
): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(canonicalJson({ ref, provider, hosts, created_at, source, decoy, vms }));
}

/**
 * Reads the text of a store's file.
 *
 * @throws {SbxError} `credential.store_corrupt`; what is wrong is told, never what is there
 */
export function parseStore(text: string, path: string): StoreFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw corrupt(path, "is no JSON");
  }
  const { version, key, entries } = objectOf(value);
  const place = objectOf(key);
  if (version !== 1) throw corrupt(path, "has a version that this sbx does not know");
  if ((place.in !== "keyring" && place.in !== "file") || typeof place.id !== "string") {
    throw corrupt(path, "does not say where its key is");
  }
  if (!Array.isArray(entries) || entries.length > ENTRIES_MAX || !entries.every(isEntry)) {
    throw corrupt(path, "holds something that is no credential");
  }
  return { version, key: { in: place.in, id: place.id }, entries };
}

export function corrupt(path: string, what: string): SbxError {
  return new SbxError(
    "credential.store_corrupt",
    `the credential store ${path} ${what}; nothing of it is used`,
    {
      hint: "restore it from a backup, or move it away and add the credentials again: sbx credentials add",
    },
  );
}

function isEntry(value: unknown): value is StoredEntry {
  const { ref, provider, label, hosts, created_at, source, decoy, vms, revoked_at, sealed } = objectOf(value);
  return typeof ref === "string" && REF.test(ref) && typeof provider === "string" && isProvider(provider) &&
    optional(label, isText) && optional(hosts, isTexts) && optional(vms, isTexts) && isText(created_at) &&
    (source === "added" || source === "captured") && (decoy === undefined || decoy === true) &&
    optional(revoked_at, isText) && optional(sealed, (text) => typeof text === "string") &&
    (sealed === undefined) === (revoked_at !== undefined);
}

function optional(value: unknown, check: (value: unknown) => boolean): boolean {
  return value === undefined || check(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= 1024;
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.length <= LIST_MAX && value.every(isText);
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
}
