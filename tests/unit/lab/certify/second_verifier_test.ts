/**
 * A verifier that shares no code with sbx: DSSE v1 and SubjectPublicKeyInfo as
 * published, with node:crypto alone.
 */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash, createPublicKey, verify } from "node:crypto";
import { formatPublicKey } from "../../../../lib/release/signing/mod.ts";
import { withCertificate } from "../../../helper/certificate.ts";

/** @returns the statement; `undefined` for an envelope that the key did not sign */
function verifyIndependently(envelope: string, pem: string): Record<string, unknown> | undefined {
  const { payload, payloadType, signatures: [{ keyid, sig }] } = JSON.parse(envelope);
  const body = Buffer.from(payload, "base64");
  const signed = Buffer.concat([
    Buffer.from(`DSSEv1 ${Buffer.byteLength(payloadType)} ${payloadType} ${body.length} `),
    body,
  ]);
  const key = createPublicKey(pem);
  const raw = Buffer.from(key.export({ format: "jwk" }).x!, "base64url");
  if (createHash("sha256").update(raw).digest("hex") !== keyid) return undefined;
  return verify(null, signed, key, Buffer.from(sig, "base64")) ? JSON.parse(body.toString()) : undefined;
}

Deno.test("a verifier that is not sbx takes a certificate, and refuses every change of what is signed", () =>
  withCertificate(({ text, trusted }) => {
    const pem = formatPublicKey(trusted[0]);
    const statement = verifyIndependently(text, pem);
    assertEquals(statement?._type, "https://in-toto.io/Statement/v1");
    const envelope = JSON.parse(text);
    const payload = Buffer.from(envelope.payload, "base64");
    for (let at = 0; at < payload.length; at++) {
      const changed = Buffer.from(payload);
      changed[at] ^= 1;
      const forged = JSON.stringify({ ...envelope, payload: changed.toString("base64") });
      assert(verifyIndependently(forged, pem) === undefined, `byte ${at}`);
    }
    const otherType = JSON.stringify({ ...envelope, payloadType: `${envelope.payloadType}x` });
    assertEquals(verifyIndependently(otherType, pem), undefined);
    return Promise.resolve();
  }));
