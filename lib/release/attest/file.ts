/**
 * Attestations beside a file, in Sigstore bundles 0.3 with a key instead of a certificate: they need no
 * network.
 */
import { basename, dirname, join } from "node:path";
import { parseJson } from "../../base/json/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import { Envelope, type PublicKey, type SigningKey, signPayload, verifyParsed } from "../mod.ts";
import { type Kind, Statement } from "./statement.ts";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";

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
 * Path of a key's attestation. A bundle has one signature, so the first key has the plain name, and each
 * further one its id in the name: the file published under the plain name stays, while keys rotate.
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
