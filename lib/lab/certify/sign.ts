import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { deviceName, userName } from "../../base/user/mod.ts";
import { readOwner, verifyLedger } from "../../ledger/read/mod.ts";
import { type LedgerWitness, witnessOfFile } from "../../ledger/witness/mod.ts";
import { CERTIFICATE_TYPE, checkSeal, ensureSigningKey, signText } from "../../release/signing/mod.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";

/**
 * Makes the certificate of a session whose record is valid, signed by the key of this machine.
 *
 * @param session the record's expected session
 * @param witness heads that the service has witnessed; by default the ones in its file
 * @returns its envelope as text, and its content
 * @throws {SbxError} `certify.invalid`: the record is not valid
 */
export async function certifySession(
  home: Pick<Home, "dir">,
  path: string,
  session?: string,
  witness?: LedgerWitness,
): Promise<{ text: string; certificate: Certificate }> {
  const key = await ensureSigningKey(home);
  const { ok, sealed, signed_by, first_bad } = await verifyLedger(
    path,
    session,
    (seal) => checkSeal(seal, [key.publicKey], false),
    witness ?? await witnessOfFile(home, path),
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
