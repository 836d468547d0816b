/**
 * The key of this machine: Ed25519, with which it signs seals, heads and certificates
 * (docs/guides/certify.md). Its private part is in the OS keyring, or without one in a file of mode 0600;
 * for a machine of a fleet the TPM seals it, where there is one. Its public part is beside it and may be
 * handed out.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { findKeyring, type Keyring } from "../../credential/mod.ts";
import {
  generateSigningKey,
  keyIdOf,
  parseSigningKey,
  type PublicKey,
  readKeyFile,
  type SigningKey,
} from "../mod.ts";
import { sealSecret, unsealSecret } from "./tpm.ts";

/** Longest wait in `ms` for another process that makes the key. */
const LOCK_MS = 10_000;

/** Public part, and where the private one is. */
const KeyRecord = z.strictObject({
  schema: z.literal("sbx.machine-key.v1"),
  in: z.enum(["keyring", "file", "tpm"]),
  id: z.string(),
  public_key: z.base64(),
});
type KeyRecord = z.infer<typeof KeyRecord>;

/** Files of the key of one home. */
export function keyPaths({ dir }: Pick<Home, "dir">) {
  const folder = join(dir, "attest");
  return {
    folder,
    record: join(folder, "machine-key.json"),
    secret: join(folder, "machine-key.pem"),
    sealed: join(folder, "machine-key.tpm.json"),
    lock: join(folder, "lock"),
  };
}

/**
 * Reads the public key of this machine; `undefined` if it has none yet.
 * @throws {SbxError} `attest.key.invalid`
 */
export async function readMachineKey(home: Pick<Home, "dir">): Promise<PublicKey | undefined> {
  const record = await readRecord(home);
  return record && publicOf(record);
}

/**
 * Finds the key that signs; `undefined` if this machine has none yet.
 *
 * @throws {SbxError} `attest.key.missing`: there is a public part only;
 * `attest.key.invalid`, `release.keys.insecure`
 */
export async function findSigningKey(
  home: Pick<Home, "dir">,
  keyring: Keyring | undefined = findKeyring(),
): Promise<SigningKey | undefined> {
  const record = await readRecord(home);
  if (!record) return undefined;
  try {
    return await parseKept(home, record, await pemOf(home, record, keyring));
  } catch (error) {
    // bindSigningKey may have moved it since; its owner must not be asked to begin with another key.
    const now = await readRecord(home);
    if (now === undefined || now.in === record.in) throw error;
    return await parseKept(home, now, await pemOf(home, now, keyring));
  }
}

/** Place of the private key; `undefined` if there is none yet. @throws {SbxError} `attest.key.invalid` */
export async function placeOfKey(home: Pick<Home, "dir">): Promise<KeyRecord["in"] | undefined> {
  return (await readRecord(home))?.in;
}

async function pemOf(
  home: Pick<Home, "dir">,
  record: KeyRecord,
  keyring: Keyring | undefined,
): Promise<string> {
  const { folder, secret, sealed } = keyPaths(home);
  const readFile = (path: string) =>
    readKeyFile(path, "sign").catch((error) => {
      if ((error as SbxError).code === "release.keys.not_found") return undefined;
      throw error;
    });
  const read = {
    file: () => readFile(secret),
    keyring: async () => toPem(await keyring?.get(accountOf(home))),
    tpm: async () => {
      const text = await readFile(sealed);
      return text === undefined ? undefined : toPem(await unsealSecret(text, sealed, folder));
    },
  };
  const pem = await read[record.in]();
  if (pem === undefined) throw missing(whereOf(home, record), "is missing", home);
  return pem;
}

async function parseKept(home: Pick<Home, "dir">, record: KeyRecord, pem: string): Promise<SigningKey> {
  const where = whereOf(home, record);
  const key = await parseSigningKey(pem, where);
  if (key.publicKey.id !== record.id) throw missing(where, "is another one", home);
  return key;
}

function whereOf(home: Pick<Home, "dir">, record: KeyRecord): string {
  const { secret, sealed } = keyPaths(home);
  return { file: secret, tpm: sealed, keyring: "the OS keyring" }[record.in];
}

/** As {@linkcode findSigningKey}; makes a key if none exists. A lost one is never replaced silently. */
export async function ensureSigningKey(
  home: Pick<Home, "dir">,
  keyring: Keyring | undefined = findKeyring(),
): Promise<SigningKey> {
  const existing = await findSigningKey(home, keyring);
  if (existing) return existing;
  return await withKeyLock(
    home,
    async () => await findSigningKey(home, keyring) ?? await make(home, keyring),
  );
}

/**
 * Has the TPM seal the key of a machine, and makes one if none exists. An existing key stays the same; its
 * file is removed once the TPM has opened the sealed key.
 *
 * @throws {SbxError} as {@linkcode findSigningKey}; `attest.key.invalid`: the file is a link;
 * `attest.tpm.…`
 */
export async function bindSigningKey(home: Pick<Home, "dir">, keyring: Keyring): Promise<SigningKey> {
  return await withKeyLock(home, async () => {
    const { folder, secret, sealed } = keyPaths(home);
    const record = await readRecord(home);
    await requireOneName(secret);
    const pem = record ? await pemOf(home, record, keyring) : await generateSigningKey();
    const key = record ? await parseKept(home, record, pem) : await parseSigningKey(pem, sealed);
    if (record?.in !== "tpm") {
      const line = toLine(pem);
      const text = await sealSecret(line, folder);
      if (await unsealSecret(text, sealed, folder) !== line) {
        throw new SbxError(
          "attest.tpm.failed",
          "the TPM of this machine does not return the key that it sealed",
          {
            hint: "restart the machine",
          },
        );
      }
      await writeAtomic(sealed, text);
      await writeRecord(home, "tpm", key.publicKey);
    }
    // Also one that a call left which ended between these two writes.
    await ifFound(Deno.remove(secret));
    return key;
  });
}

/** Refuses a file whose removal leaves the key in another one. @throws {SbxError} `attest.key.invalid` */
async function requireOneName(path: string): Promise<void> {
  const info = await ifFound(Deno.lstat(path));
  if (!info || !info.isSymlink && (info.nlink ?? 1) === 1) return;
  throw new SbxError(
    "attest.key.invalid",
    `${path} is a link, and the key would stay in the other file`,
    { hint: "move the other file to this place, so that the key has one name, and try again" },
  );
}

/** True if a key that the TPM has sealed is in a file too: a call ended before it removed the file. */
export async function isFileLeft(home: Pick<Home, "dir">): Promise<boolean> {
  const isSealed = await placeOfKey(home) === "tpm";
  return isSealed && await ifFound(Deno.lstat(keyPaths(home).secret)) !== undefined;
}

/** Runs `work` while no other process makes or moves the key. @throws {SbxError} `attest.key.busy` */
async function withKeyLock<T>(home: Pick<Home, "dir">, work: () => Promise<T>): Promise<T> {
  const { folder, lock } = keyPaths(home);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  using file = await Deno.open(lock, { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(file, LOCK_MS)) {
    throw new SbxError("attest.key.busy", "another sbx is making the key of this machine", {
      hint: "try again in a moment",
    });
  }
  return await work();
}

async function make(home: Pick<Home, "dir">, keyring: Keyring | undefined): Promise<SigningKey> {
  const { secret } = keyPaths(home);
  const pem = await generateSigningKey();
  const key = await parseSigningKey(pem, secret);
  const line = toLine(pem);
  await keyring?.set(accountOf(home), line);
  // A locked or broken keyring accepts a key and does not return it.
  const isKept = keyring !== undefined && await keyring.get(accountOf(home)) === line;
  if (!isKept) await writeAtomic(secret, pem);
  await writeRecord(home, isKept ? "keyring" : "file", key.publicKey);
  return key;
}

async function writeRecord(home: Pick<Home, "dir">, place: KeyRecord["in"], { id, raw }: PublicKey) {
  const content: KeyRecord = {
    schema: "sbx.machine-key.v1",
    in: place,
    id,
    public_key: raw.toBase64(),
  };
  await writeAtomic(keyPaths(home).record, JSON.stringify(content, null, 2) + "\n");
}

async function readRecord(home: Pick<Home, "dir">): Promise<KeyRecord | undefined> {
  const path = keyPaths(home).record;
  try {
    const record = KeyRecord.parse(JSON.parse(await Deno.readTextFile(path)));
    if (publicOf(record).id === record.id) return record;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
  }
  throw new SbxError("attest.key.invalid", `${path} does not hold the public key of this machine`, {
    hint: "restore it from a backup; without it, move the folder away and sbx makes another key",
  });
}

/** Parses the file with a home's public key; `undefined`: it is not one. */
export function parseMachineKey(text: string): PublicKey | undefined {
  try {
    const record = KeyRecord.parse(JSON.parse(text));
    const key = publicOf(record);
    return key.id === record.id ? key : undefined;
  } catch {
    return undefined;
  }
}

function publicOf({ public_key }: KeyRecord): PublicKey {
  const raw = Uint8Array.fromBase64(public_key);
  return { id: keyIdOf(raw), raw };
}

/** Account in the keyring: each home has a key of its own. */
function accountOf({ dir }: Pick<Home, "dir">): string {
  return `machine-key-${blake3(dir).slice(0, 16)}`;
}

/** The body of a PEM text: keyrings keep one line. */
function toLine(pem: string): string {
  return pem.split("\n").filter((line) => !line.startsWith("-----")).join("");
}

function toPem(line: string | undefined): string | undefined {
  return line && `-----BEGIN PRIVATE KEY-----\n${line}\n-----END PRIVATE KEY-----\n`;
}

function missing(where: string, problem: string, home: Pick<Home, "dir">): SbxError {
  return new SbxError("attest.key.missing", `the private key of this machine (${where}) ${problem}`, {
    hint: `unlock the keyring or restore the key; to begin with another one, move ${
      keyPaths(home).folder
    } away`,
  });
}

/** DER before the 32 bytes of an Ed25519 key (RFC 8410). */
const PREFIX = "302a300506032b6570032100";
const PEM = /-----BEGIN PUBLIC KEY-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END PUBLIC KEY-----/g;
/** Largest file of public keys, in `bytes`. */
const FILE_MAX = 64 * 1024;

export function formatPublicKey({ raw }: PublicKey): string {
  const der = Uint8Array.fromHex(PREFIX + raw.toHex());
  return `-----BEGIN PUBLIC KEY-----\n${der.toBase64()}\n-----END PUBLIC KEY-----\n`;
}

/** Parses one public key or several. @throws {SbxError} `attest.key.invalid` */
export function parsePublicKeys(text: string, source: string): PublicKey[] {
  const keys = text.length > FILE_MAX ? [] : [...text.matchAll(PEM)].map(([, body]) => toKey(body));
  if (keys.length > 0 && keys.every((key) => key !== undefined)) return keys;
  throw new SbxError("attest.key.invalid", `${source} has no Ed25519 public key in PEM`, {
    hint: "sbx certify --public-key writes that of a machine",
  });
}

function toKey(body: string): PublicKey | undefined {
  try {
    const hex = Uint8Array.fromBase64(body.replaceAll(/\s/g, "")).toHex();
    if (!hex.startsWith(PREFIX) || hex.length !== PREFIX.length + 64) return undefined;
    const raw = Uint8Array.fromHex(hex.slice(PREFIX.length));
    return { id: keyIdOf(raw), raw };
  } catch {
    return undefined;
  }
}
