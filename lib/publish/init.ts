import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import { formatTrust, generateSigningKey, INDEX_NAME, parseSigningKey } from "../release/mod.ts";
import { FILE_MODE, HMAC_KEYS, KEYS, TRUST, Workspace } from "./workspace.ts";

/** Bytes of a new HMAC key. */
const HMAC_KEY_BYTES = 32;

/** Contents of a new workspace. */
export interface NewWorkspace {
  dir: string;
  /** for the hosts of this administrator, secret */
  hmac_key_file: string;
  signing_key_file: string;
  /** for every host, public */
  trust_file: string;
  key_id: string;
}

/**
 * Makes a workspace with new keys.
 *
 * @throws {SbxError} `release.workspace.conflict`: there is one already
 */
export async function initWorkspace(dir: string, now = new Date()): Promise<NewWorkspace> {
  const keys = join(dir, KEYS);
  for (const path of [join(dir, INDEX_NAME), keys]) {
    if (!await Deno.lstat(path).then(() => true, () => false)) continue;
    throw new SbxError("release.workspace.conflict", `${path} exists already`, {
      hint: "choose an empty folder; a workspace is never overwritten, since its keys would be lost",
    });
  }
  await Deno.mkdir(keys, { recursive: true, mode: 0o700 });
  await Deno.chmod(keys, 0o700);
  const day = now.toISOString().slice(0, 10);
  const pem = await generateSigningKey();
  const { publicKey } = await parseSigningKey(pem, keys);
  const files = {
    hmac_key_file: join(keys, HMAC_KEYS),
    signing_key_file: join(keys, `${day}.pem`),
    trust_file: join(dir, TRUST),
  };
  const secret = crypto.getRandomValues(new Uint8Array(HMAC_KEY_BYTES)).toHex();
  await writeAtomic(files.hmac_key_file, `${day}:${secret}\n`);
  await writeAtomic(files.signing_key_file, pem);
  await writeAtomic(files.trust_file, formatTrust([publicKey]), FILE_MODE);
  await Workspace.create(dir).writeIndex();
  return { dir, ...files, key_id: publicKey.id };
}
