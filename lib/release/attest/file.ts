import { basename, dirname, join } from "node:path";
import { parseJson } from "../../base/json/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import type { PublicKey } from "../mod.ts";
import type { Kind } from "./statement.ts";

/** Endings of attestations, beside the file that they are about. */
const ENDINGS: Record<Kind, string> = {
  provenance: ".sigstore.json",
  sbom: ".sbom.sigstore.json",
  obom: ".obom.sigstore.json",
};
/** Most attestations of one kind that are read for a file: one a key. */
const BUNDLES_MAX = 16;
/** Characters of a key's id in the name of a further bundle. */
const KEY_ID_CHARS = 16;

/** Path of the attestation that always exists, by the first key to sign. */
export function attestationPath(path: string, kind: Kind): string {
  return `${path}${ENDINGS[kind]}`;
}

/**
 * Path of a key's attestation. A bundle has one signature, so the first key has the plain name, and each further one its
 * id in the name: the file published under the plain name stays, while keys rotate.
 */
export async function attestationPathOf(path: string, kind: Kind, { id }: PublicKey): Promise<string> {
  const plain = attestationPath(path, kind);
  const signer = await signerOf(plain);
  return signer === undefined || signer === id
    ? plain
    : `${path}.${id.slice(0, KEY_ID_CHARS)}${ENDINGS[kind]}`;
}

/** Attestations of one kind beside a file, the plain name first. @returns paths */
export async function attestationsBeside(path: string, kind: Kind): Promise<string[]> {
  const name = basename(path), ending = ENDINGS[kind];
  const isMore = (each: string) =>
    each.startsWith(`${name}.`) && each.endsWith(ending) &&
    /^[0-9a-f]{16}$/.test(each.slice(name.length + 1, each.length - ending.length));
  const names = await Array.fromAsync(Deno.readDir(dirname(path)), (entry) => entry.name).catch(() => []);
  const found = [...names.filter((each) => each === `${name}${ending}`), ...names.filter(isMore).sort()];
  return found.slice(0, BUNDLES_MAX).map((each) => join(dirname(path), each));
}

/** Key that a bundle names; undefined without a readable bundle. */
async function signerOf(path: string): Promise<string | undefined> {
  try {
    const { verificationMaterial } = objectOf(parseJson(await Deno.readTextFile(path)));
    const { hint } = objectOf(objectOf(verificationMaterial).publicKey);
    return hint === undefined ? undefined : String(hint);
  } catch {
    return undefined;
  }
}
