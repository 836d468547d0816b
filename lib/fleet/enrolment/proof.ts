/**
 * Proof that a user has the private part of the key of a home. Root certifies homes by their public keys, and
 * public keys are not secret: with another person's, rows of that person would be the user's, to read and to
 * erase.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import { FLEET_PROOF_TYPE, keyPaths, openSigned, signText } from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";

/** Content of a home's proof. */
export const HomeProof = z.strictObject({
  schema: z.literal("sbx.fleet-home-proof.v1"),
  home_id: z.string().regex(HEX64),
  /** user id of the process that signed it */
  uid: z.int().min(0),
});

/** Path of a home's proof. */
export function homeProofPath(home: Pick<Home, "dir">): string {
  return join(keyPaths(home).folder, "home-proof.json");
}

/** Writes the proof of a home for its user, unless the home has it. */
export async function ensureHomeProof(
  home: Pick<Home, "dir">,
  key: SigningKey,
  uid = Deno.uid() ?? 0,
): Promise<void> {
  const path = homeProofPath(home);
  const text = await ifFound(Deno.readTextFile(path));
  if (text !== undefined && await isHomeProof(text, key.publicKey, uid)) return;
  const content: z.infer<typeof HomeProof> = {
    schema: "sbx.fleet-home-proof.v1",
    home_id: key.publicKey.id,
    uid,
  };
  await writeAtomic(path, await signText(key, FLEET_PROOF_TYPE, JSON.stringify(content)));
}

/** True if a user proved with this text that the key is that user's. */
export async function isHomeProof(text: string, key: PublicKey, uid: number): Promise<boolean> {
  try {
    const opened = await openSigned(new TextEncoder().encode(text), [key], "the proof of a home");
    const content = HomeProof.parse(JSON.parse(opened.text));
    return opened.type === FLEET_PROOF_TYPE && opened.key.trusted && content.home_id === key.id &&
      content.uid === uid;
  } catch {
    return false;
  }
}
