/** Sigstore bundles 0.3 with a key instead of a certificate: they need no network. */
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { Envelope, type PublicKey, type SigningKey, signPayload, verifyParsed } from "../mod.ts";
import { Statement } from "./statement.ts";

const MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
/** Largest bundle, in `bytes`: an SBOM or OBOM is in it (docs/design/contracts/14-limits.md §14). */
export const BUNDLE_BYTES_MAX = 16 * 1024 * 1024;

const Bundle = z.strictObject({
  mediaType: z.literal(MEDIA_TYPE),
  verificationMaterial: z.strictObject({
    publicKey: z.strictObject({ hint: z.string().min(1).max(128) }),
    // A log is not asked: bundles that name one are not ours.
    tlogEntries: z.array(z.never()).max(0).optional(),
  }),
  dsseEnvelope: Envelope.refine(({ signatures }) => signatures.length === 1, "must have one signature"),
});

/** Signs a statement. @returns text of the bundle */
export async function writeBundle(statement: Statement, key: SigningKey): Promise<string> {
  const payload = new TextEncoder().encode(JSON.stringify(statement));
  const bundle: z.input<typeof Bundle> = {
    mediaType: MEDIA_TYPE,
    verificationMaterial: { publicKey: { hint: key.publicKey.id } },
    dsseEnvelope: await signPayload(PAYLOAD_TYPE, payload, [key]),
  };
  return JSON.stringify(bundle) + "\n";
}

/**
 * Reads a bundle that a trusted key signed.
 *
 * @throws {SbxError} `release.attestation.invalid`; `release.signature.invalid`
 */
export async function readBundle(
  bytes: Uint8Array,
  trusted: readonly PublicKey[],
  source: string,
): Promise<Statement> {
  const bundle = parse(Bundle, bytes, source);
  const { payload } = await verifyParsed(bundle.dsseEnvelope, { payloadType: PAYLOAD_TYPE, trusted, source });
  return parse(Statement, payload, source);
}

function parse<T>(schema: z.ZodType<T>, bytes: Uint8Array, source: string): T {
  let problem = "";
  try {
    if (bytes.length > BUNDLE_BYTES_MAX) throw new Error(`it has over ${BUNDLE_BYTES_MAX} bytes`);
    const value = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    const read = schema.safeParse(value);
    if (read.success) return read.data;
    const [{ path, message }] = read.error.issues;
    problem = `${path.join(".") || "it"}: ${message}`;
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  }
  throw new SbxError("release.attestation.invalid", `the attestation ${source} is not valid: ${problem}`, {
    hint: "sbx-admin release attest DIR VERSION writes it; publish the whole release",
  });
}
