import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import {
  type HmacKey,
  parseHmacKeys,
  parseSigningKey,
  readKeyFile,
  type SigningKey,
} from "../release/mod.ts";
import { HMAC_KEYS, KEYS } from "./workspace.ts";

/** Keys of a publisher. */
export interface PublisherKeys {
  /** the first one signs */
  hmac: HmacKey[];
  /** all of them sign: `keys/*.pem`, in the order of their names */
  signing: SigningKey[];
}

/**
 * Reads the keys of a workspace, or of another folder with the same files, such as a mounted key store.
 *
 * @throws {SbxError} `release.keys.…`
 */
export async function readPublisherKeys(
  workspace: string,
  dir = join(workspace, KEYS),
): Promise<PublisherKeys> {
  const path = join(dir, HMAC_KEYS);
  const hmac = parseHmacKeys(await readKeyFile(path, "sign"), path);
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  const signing = [];
  for (const name of names.filter((name) => name.endsWith(".pem")).sort()) {
    signing.push(await parseSigningKey(await readKeyFile(join(dir, name), "sign"), join(dir, name)));
  }
  if (signing.length > 0) return { hmac, signing };
  throw new SbxError("release.keys.not_found", `${dir} has no key that signs, NAME.pem`, {
    hint:
      "openssl genpkey -algorithm ed25519 -out NAME.pem makes one; put its public key into the trust documents of hosts",
  });
}
