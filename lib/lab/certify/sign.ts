import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { deviceName, userName } from "../../base/user/mod.ts";
import { readOwner, verifyLedger } from "../../ledger/read/mod.ts";
import { CERTIFICATE_TYPE, checkSeal, ensureSigningKey, signText } from "../../release/signing/mod.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";

/**
 * Makes the certificate of a session whose record is valid, signed by the key of this machine.
 *
 * @param session the record's expected session
 * @returns its envelope as text, and its content
 * @throws {SbxError} `certify.invalid`: the record is not valid
 */
export async function certifySession(
  home: Pick<Home, "dir">,
  path: string,
  session?: string,
): Promise<{ text: string; certificate: Certificate }> {
  const key = await ensureSigningKey(home);
  const { ok, sealed, signed_by, first_bad } = await verifyLedger(
    path,
    session,
    (seal) => checkSeal(seal, [key.publicKey], false),
  );
  if (!ok) {
    throw new SbxError("certify.invalid", `the record ${path} is invalid: ${first_bad?.reason}`, {
      hint: "sbx verify NAME names its first bad event; a changed record is not certified",
    });
  }
  const certificate = await makeCertificate(path, {
    session_id: await readOwner(path),
    seal: signed_by?.trusted ? "signed" : sealed ? "unsigned" : "none",
    user: userName(),
    device: deviceName(),
  });
  return { text: await signText(key, CERTIFICATE_TYPE, JSON.stringify(certificate)), certificate };
}
