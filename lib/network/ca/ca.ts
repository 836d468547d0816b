import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { CaFiles, CaPair, Leaf } from "./sign.ts";
import { join } from "node:path";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { fromPem } from "./pem.ts";

/** Most certificates in the cache. */
const LEAVES_MAX = 2048;

/**
 * Certificate authority of this machine. Its key never leaves the host: guests get its certificate, and only
 * guests see the certificates it signs. The signing library takes a tenth of a second to load, so it is
 * loaded for the first certificate.
 */
export class Ca {
  /** PEM, trusted by guests */
  readonly certificate: string;
  readonly fingerprint: string;
  readonly #pair: CaPair;
  readonly #leaves = new LeafCache<Leaf>(LEAVES_MAX);
  #signer?: Promise<(name: string) => Promise<Leaf>>;

  constructor(readonly files: CaFiles, pair: CaPair) {
    this.#pair = pair;
    this.certificate = pair.certificate;
    this.fingerprint = pair.fingerprint;
  }

  /**
   * Certificate for a name or address, signed on first use.
   *
   * @throws {SbxError} `ca.invalid`: the key does not match the certificate
   */
  leaf(name: string): Promise<Leaf> {
    return this.#leaves.get(name, async () => {
      const sign = await (this.#signer ??= this.#load());
      return await sign(name);
    });
  }

  /**
   * Derives 32 bytes for another key of this machine, which are as secret as the CA's.
   *
   * @param label of the use; another label gives other bytes
   */
  async derive(label: string): Promise<Uint8Array<ArrayBuffer>> {
    const encoder = new TextEncoder();
    const key = await crypto.subtle.importKey("raw", encoder.encode(this.#pair.key), "HKDF", false, [
      "deriveBits",
    ]);
    const terms = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: encoder.encode(label) };
    return new Uint8Array(await crypto.subtle.deriveBits(terms, key, 256));
  }

  async #load(): Promise<(name: string) => Promise<Leaf>> {
    const { createLeafSigner } = await import("./sign.ts");
    try {
      return await createLeafSigner(this.#pair);
    } catch (error) {
      throw asSbxError(error, "loading this machine's certificate authority");
    }
  }
}

/** Cache of pending and settled values. Evicts the least recently used; drops a value that fails. */
class LeafCache<T> {
  readonly #entries = new Map<string, Promise<T>>();

  constructor(readonly max: number) {}

  get(key: string, make: () => Promise<T>): Promise<T> {
    const existing = this.#entries.get(key);
    if (existing) this.#entries.delete(key);
    const value = existing ?? make();
    this.#entries.set(key, value);
    if (!existing) {
      value.catch(() => {
        if (this.#entries.get(key) === value) this.#entries.delete(key);
      });
      if (this.#entries.size > this.max) this.#entries.delete(this.#entries.keys().next().value!);
    }
    return value;
  }
}

// Files of the machine's CA: `$SBX_HOME/ca`, accessible to its user only.

/** Longest wait for another process that is creating the CA, in `ms`. */
const LOCK_TIMEOUT_MS = 20_000;
/** Longest key or certificate file, in `bytes`. */
const FILE_MAX = 64 * 1024;
/** Permissions of group and others. */
const OTHERS = 0o077;

/** Paths of a home's CA. */
export function caFiles({ dir }: Pick<Home, "dir">): CaFiles {
  const folder = join(dir, "ca");
  return { dir: folder, key: join(folder, "ca.key"), certificate: join(folder, "ca.crt") };
}

/**
 * Opens the CA of a home, and creates it on first use.
 *
 * @throws {SbxError} `ca.insecure`: others may read the key or change the certificate; `ca.missing`: one of
 * the two files is gone; `ca.invalid`: they are damaged; `ca.busy`
 */
export async function openCa(home: Pick<Home, "dir">): Promise<Ca> {
  const files = caFiles(home);
  const pair = await readPair(files);
  if (pair) return new Ca(files, pair);
  return new Ca(files, await withLock(files, async () => await readPair(files) ?? await writePair(files)));
}

/**
 * Replaces the CA of a home. Running VMs keep the old one until their next start.
 *
 * @throws {SbxError} `ca.insecure`: others may use the folder; `ca.busy`
 */
export async function rotateCa(home: Pick<Home, "dir">): Promise<Ca> {
  const files = caFiles(home);
  return new Ca(files, await withLock(files, () => writePair(files)));
}

async function withLock(files: CaFiles, work: () => Promise<CaPair>): Promise<CaPair> {
  await Deno.mkdir(files.dir, { recursive: true, mode: 0o700 });
  requirePrivate(files.dir, await Deno.lstat(files.dir), "folder");
  using lock = await Deno.open(join(files.dir, "lock"), { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_TIMEOUT_MS)) {
    throw new SbxError("ca.busy", `another program is creating the CA in ${files.dir}`, {
      hint: "try again",
    });
  }
  return await work();
}

async function writePair(files: CaFiles): Promise<CaPair> {
  const { createAuthority } = await import("./sign.ts");
  const { key, certificate } = await createAuthority();
  await writeAtomic(files.key, key, 0o600);
  await writeAtomic(files.certificate, certificate, 0o600);
  return { key, certificate, fingerprint: await fingerprintOf(files, certificate) };
}

/** Reads the existing pair; `undefined` without one. */
async function readPair(files: CaFiles): Promise<CaPair | undefined> {
  const [dir, key, certificate] = await Promise.all([files.dir, files.key, files.certificate].map(statOf));
  if (!key && !certificate) return undefined;
  if (!key || !certificate) {
    throw new SbxError(
      "ca.missing",
      `${key ? files.certificate : files.key} is missing; the CA needs its key and its certificate`,
      {
        hint: "restore it, or create a new pair: sbx-admin ca rotate",
      },
    );
  }
  requirePrivate(files.dir, dir!, "folder");
  requirePrivate(files.key, key, "file");
  requirePrivate(files.certificate, certificate, "file");
  const pair = { key: await readText(files.key), certificate: await readText(files.certificate) };
  if (!fromPem(pair.key, "PRIVATE KEY")) throw damagedError(files.key, "private key");
  return { ...pair, fingerprint: await fingerprintOf(files, pair.certificate) };
}

async function statOf(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw new SbxError("ca.insecure", `the permissions of ${path} cannot be read`, {
      cause,
      hint: "give your user access to it",
    });
  }
}

function requirePrivate(path: string, info: Deno.FileInfo, kind: "folder" | "file"): void {
  const isRightKind = kind === "folder" ? info.isDirectory : info.isFile;
  const isOpen = (info.mode ?? 0) & OTHERS;
  const isForeign = info.uid !== null && info.uid !== Deno.uid();
  if (isRightKind && !isOpen && !isForeign) return;
  const problem = !isRightKind
    ? `is not a plain ${kind}`
    : isForeign
    ? "belongs to another user"
    : "is accessible to other users";
  const mode = kind === "folder" ? "700" : "600";
  throw new SbxError(
    "ca.insecure",
    `${path} ${problem}; anybody who can read the CA key can impersonate any host to a VM`,
    {
      hint: isRightKind && !isForeign
        ? `chmod ${mode} ${path}; if another user may have read it, also run sbx-admin ca rotate`
        : "move it away, then create a new one: sbx-admin ca rotate",
    },
  );
}

async function readText(path: string): Promise<string> {
  const { size } = await Deno.stat(path);
  if (size > FILE_MAX) throw damagedError(path, "PEM file");
  return await Deno.readTextFile(path);
}

async function fingerprintOf(files: CaFiles, certificate: string): Promise<string> {
  const der = fromPem(certificate, "CERTIFICATE");
  if (!der) throw damagedError(files.certificate, "certificate");
  return new Uint8Array(await crypto.subtle.digest("SHA-256", der)).toHex();
}

function damagedError(path: string, expected: string): SbxError {
  return new SbxError("ca.invalid", `${path} is not a valid ${expected}`, {
    hint: "restore it, or create a new pair: sbx-admin ca rotate",
  });
}
