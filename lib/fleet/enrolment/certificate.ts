/**
 * Certificate of a home: the machine's key says that the home is one of it
 * (docs/design/contracts/12-ledger.md §12).
 */
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import { FLEET_HOME_TYPE, formatPublicKey, openSigned, signText } from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";

/** Content of a home's certificate. */
export const HomeCertificate = z.strictObject({
  schema: z.literal("sbx.fleet-home.v1"),
  machine_id: z.string().regex(HEX64),
  home_id: z.string().regex(HEX64),
  /** PEM of the home's key */
  public_key: z.string().max(1024),
  /** user of the machine who has the home */
  user: z.string().min(1).max(64),
  made_at: z.iso.datetime(),
});
export type HomeCertificate = z.infer<typeof HomeCertificate>;

/** Certifies a home. @param key of the machine @returns the envelope */
export async function makeHomeCertificate(
  key: SigningKey,
  home: PublicKey,
  user: string,
  now = new Date(),
): Promise<string> {
  const content: HomeCertificate = {
    schema: "sbx.fleet-home.v1",
    machine_id: key.publicKey.id,
    home_id: home.id,
    public_key: formatPublicKey(home),
    user,
    made_at: now.toISOString(),
  };
  return await signText(key, FLEET_HOME_TYPE, JSON.stringify(content));
}

/** Failures of a look-up that say nothing about the certificate. */
const OTHERS: readonly unknown[] = ["fleet.machine.ended", "fleet.store.unavailable"];

/**
 * Opens a certificate.
 *
 * @param keyOf key of a machine by its id; `undefined`: no such machine
 * @throws {SbxError} `fleet.home.invalid`; of `keyOf` {@linkcode OTHERS}
 */
export async function openHomeCertificate(
  envelope: string,
  keyOf: (machineId: string) => Promise<PublicKey | undefined>,
): Promise<HomeCertificate> {
  const bytes = new TextEncoder().encode(envelope);
  try {
    const { key: { id } } = await openSigned(bytes, [], "the certificate");
    const key = await keyOf(id);
    const { type, text, key: signer } = await openSigned(bytes, key ? [key] : [], "the certificate");
    const content = HomeCertificate.parse(JSON.parse(text));
    if (type === FLEET_HOME_TYPE && signer.trusted && content.machine_id === id) return content;
  } catch (cause) {
    if (cause instanceof SbxError && OTHERS.includes(cause.code)) throw cause;
    throw invalid(cause);
  }
  throw invalid();
}

function invalid(cause?: unknown): SbxError {
  return new SbxError("fleet.home.invalid", "the certificate is refused: no enrolled machine signed it", {
    cause,
    hint: "root runs sbx-admin fleet enrol on the machine, and then sbx-admin fleet homes",
  });
}
