import { z } from "zod";
import { CERTIFICATE_TYPE, HEAD_TYPE, SEAL_TYPE, type Signed } from "../../release/signing/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { Heads, parseCertificate } from "./certificate.ts";

/** A head or a seal; other fields are for people. */
const HeadFile = z.looseObject({ session_id: z.string(), ...Heads.shape });

/** Heads of a signed head, seal or certificate. @throws {SbxError} `certify.invalid` */
export function readSignedHeads(
  { type, text }: Signed,
  source: string,
): { session_id: string; heads: Heads } {
  if (type === CERTIFICATE_TYPE) {
    const { session_id, ledger } = parseCertificate(text, source).predicate;
    return { session_id, heads: ledger };
  }
  try {
    if (type === HEAD_TYPE || type === SEAL_TYPE) {
      const { session_id, ...heads } = HeadFile.parse(JSON.parse(text));
      return { session_id, heads: Heads.parse(heads) };
    }
  } catch {
    // Below.
  }
  throw new SbxError("certify.invalid", `${source} has no heads of a record`, {
    hint: "give a seal, a collected head or a certificate",
  });
}
