/** Where the machine's CA is kept: `$SBX_HOME/ca`, of its user alone (issue 5). */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../base/home/mod.ts";
import { Ca } from "./ca.ts";
import { fromPem } from "./pem.ts";

/** Key and certificate as PEM, and the certificate's SHA-256. */
export interface CaPair {
  key: string;
  certificate: string;
  /** 64 hex characters */
  fingerprint: string;
}

/** The files of one CA. */
export interface CaFiles {
  dir: string;
  key: string;
  certificate: string;
}

/** Milliseconds that one process waits for another that is making the CA. */
const LOCK_MS = 20_000;
/** Longest file that can be a key or a certificate. */
const FILE_MAX = 64 * 1024;
const OTHERS = 0o077;

/** Paths of the CA of a home. */
export function caFiles({ dir }: Pick<Home, "dir">): CaFiles {
  const folder = join(dir, "ca");
  return { dir: folder, key: join(folder, "ca.key"), certificate: join(folder, "ca.crt") };
}

/**
 * The CA of a home; the first one who asks makes it.
 *
 * @throws {SbxError} `ca.insecure` when others may read the key or change the certificate, `ca.missing` when one of the
 * two files is gone, `ca.invalid` when they are damaged, `ca.busy`
 */
export async function openCa(home: Pick<Home, "dir">): Promise<Ca> {
  const files = caFiles(home);
  const known = await readPair(files);
  if (known) return new Ca(files, known);
  return new Ca(files, await locked(files, async () => await readPair(files) ?? await writePair(files)));
}

/**
 * Replaces the CA of a home. VMs that run keep the one that they trust; the next start of each gets the new one.
 *
 * @throws {SbxError} `ca.insecure` for the folder, `ca.busy`
 */
export async function rotateCa(home: Pick<Home, "dir">): Promise<Ca> {
  const files = caFiles(home);
  return new Ca(files, await locked(files, () => writePair(files)));
}

async function locked(files: CaFiles, work: () => Promise<CaPair>): Promise<CaPair> {
  await Deno.mkdir(files.dir, { recursive: true, mode: 0o700 });
  await checkPlace(files.dir, await Deno.lstat(files.dir), "folder");
  using lock = await Deno.open(join(files.dir, "lock"), { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_MS)) {
    throw new SbxError("ca.busy", `another program is making the CA in ${files.dir}`, { hint: "try again" });
  }
  return await work();
}

async function writePair(files: CaFiles): Promise<CaPair> {
  const { makeAuthority } = await import("./sign.ts");
  const { key, certificate } = await makeAuthority();
  await writeAtomic(files.key, key, 0o600);
  await writeAtomic(files.certificate, certificate, 0o600);
  return { key, certificate, fingerprint: await fingerprintOf(files, certificate) };
}

/** The pair that is there; `undefined` when there is none. */
async function readPair(files: CaFiles): Promise<CaPair | undefined> {
  const [dir, key, certificate] = await Promise.all([files.dir, files.key, files.certificate].map(statOf));
  if (!key && !certificate) return undefined;
  if (!key || !certificate) {
    throw new SbxError(
      "ca.missing",
      `${key ? files.certificate : files.key} is gone, and the other half is there`,
      {
        hint: "put it back, or sbx-admin ca rotate makes a new pair",
      },
    );
  }
  await checkPlace(files.dir, dir!, "folder");
  await checkPlace(files.key, key, "file");
  await checkPlace(files.certificate, certificate, "file");
  const pair = { key: await readText(files.key), certificate: await readText(files.certificate) };
  if (!fromPem(pair.key, "PRIVATE KEY")) throw damaged(files.key, "private key");
  return { ...pair, fingerprint: await fingerprintOf(files, pair.certificate) };
}

async function statOf(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw new SbxError("ca.insecure", `${path} cannot be looked at`, {
      cause,
      hint: "correct its permissions",
    });
  }
}

function checkPlace(path: string, info: Deno.FileInfo, kind: "folder" | "file"): void {
  const right = kind === "folder" ? info.isDirectory : info.isFile;
  const open = (info.mode ?? 0) & OTHERS;
  const foreign = info.uid !== null && info.uid !== Deno.uid();
  if (right && !open && !foreign) return;
  const why = !right ? `is no plain ${kind}` : foreign ? "belongs to someone else" : "is open to others";
  const mode = kind === "folder" ? "700" : "600";
  throw new SbxError(
    "ca.insecure",
    `${path} ${why}; whoever can read the CA's key can pose as any host to a VM`,
    {
      hint: right && !foreign
        ? `chmod ${mode} ${path} if nobody else has read it, otherwise sbx-admin ca rotate as well`
        : "move it away; sbx-admin ca rotate makes a new one",
    },
  );
}

async function readText(path: string): Promise<string> {
  const { size } = await Deno.stat(path);
  if (size > FILE_MAX) throw damaged(path, "PEM file");
  return await Deno.readTextFile(path);
}

async function fingerprintOf(files: CaFiles, certificate: string): Promise<string> {
  const der = fromPem(certificate, "CERTIFICATE");
  if (!der) throw damaged(files.certificate, "certificate");
  return new Uint8Array(await crypto.subtle.digest("SHA-256", der)).toHex();
}

function damaged(path: string, what: string): SbxError {
  return new SbxError("ca.invalid", `${path} holds no ${what}`, {
    hint: "restore it, or sbx-admin ca rotate makes a new pair",
  });
}
