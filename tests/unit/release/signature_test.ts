import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  formatTrust,
  generateSigningKey,
  keyIdOf,
  parseSigningKey,
  parseTrust,
  signedBytes,
  type SigningKey,
  signPayload,
  verifyEnvelope,
} from "../../../lib/release/mod.ts";
import { bytesOf, signingKey } from "../../helper/release.ts";
import type { Parsed } from "../../helper/json.ts";

const TYPE = "application/vnd.test+json";

async function signed(keys: SigningKey[], text = "payload", type = TYPE): Promise<Record<string, Parsed>> {
  return await signPayload(type, bytesOf(text), keys);
}

const verify = (envelope: unknown, ...keys: SigningKey[]) =>
  verifyEnvelope(bytesOf(JSON.stringify(envelope)), {
    payloadType: TYPE,
    trusted: keys.map(({ publicKey }) => publicKey),
    source: "test",
  });

Deno.test("the bytes that are signed are those of DSSE's own example", () => {
  const text = new TextDecoder().decode(signedBytes("http://example.com/HelloWorld", bytesOf("hello world")));
  assertEquals(text, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
});

Deno.test("signatures are those of Ed25519: the first vector of RFC 8032, 7.1", async () => {
  const seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
  const der = Uint8Array.fromHex(`302e020100300506032b657004220420${seed}`);
  const key = await parseSigningKey(
    `-----BEGIN PRIVATE KEY-----\n${der.toBase64()}\n-----END PRIVATE KEY-----\n`,
    "k",
  );
  assertEquals(key.publicKey.raw.toHex(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  assertEquals(key.publicKey.id, keyIdOf(key.publicKey.raw));
  assertEquals(
    (await key.sign(new Uint8Array())).toHex(),
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
  );
});

Deno.test("an envelope is verified by each trusted key, and others are ignored", async () => {
  const [a, b, c] = await Promise.all([signingKey(), signingKey(), signingKey()]);
  const envelope = await signed([a, b]);
  const { payload, keyIds } = await verify(envelope, c, b);
  assertEquals([new TextDecoder().decode(payload), keyIds], ["payload", [b.publicKey.id]]);
  assertEquals((await verify(envelope, a, b)).keyIds, [a.publicKey.id, b.publicKey.id]);
  await assertRejects(() => verify(envelope, c), SbxError, "none of them trusted");
});

Deno.test("an envelope is refused when payload, type, key or signature was changed", async () => {
  const [a, b] = await Promise.all([signingKey(), signingKey()]);
  const envelope = await signed([a]);
  const other = await signed([a], "other");
  const [{ keyid, sig }] = envelope.signatures;
  for (
    const [changed, problem] of [
      [{ ...envelope, payload: other.payload }, "did not sign this"],
      [{ ...envelope, signatures: other.signatures }, "did not sign this"],
      [{ ...envelope, payloadType: "application/vnd.test2+json" }, "it is of a application/vnd.test2+json"],
      [{ ...envelope, signatures: [{ keyid: b.publicKey.id, sig }] }, "did not sign this"],
      [
        { ...envelope, signatures: [...envelope.signatures, { keyid, sig: other.signatures[0].sig }] },
        "did not sign this",
      ],
      [{ ...envelope, signatures: [{ keyid: "", sig }] }, "none of them trusted"],
      [{ ...envelope, signatures: [] }, "envelope test is not valid"],
      [{ ...envelope, signatures: [{ keyid, sig: "AAAA" }] }, "must be 64 bytes"],
      [{ ...envelope, payload: "%%%" }, "envelope test is not valid"],
      [{ ...envelope, extra: 1 }, "envelope test is not valid"],
    ] as const
  ) await assertRejects(() => verify(changed, a, b), SbxError, problem);
});

Deno.test("a payload of another type is refused, although a trusted key signed it", async () => {
  const key = await signingKey();
  const envelope = await signed([key], "payload", "application/vnd.in-toto+json");
  await assertRejects(() => verify(envelope, key), SbxError, "not of a application/vnd.test+json");
});

Deno.test("a trust document has keys whose ids are theirs, each once", async () => {
  const { publicKey } = await signingKey();
  const text = formatTrust([publicKey]);
  assertEquals(parseTrust(text, "t").map(({ id, raw }) => [id, raw.toHex()]), [[
    publicKey.id,
    publicKey.raw.toHex(),
  ]]);
  const document = JSON.parse(text);
  const [key] = document.keys;
  for (
    const [keys, problem] of [
      [[], "keys"],
      [[key, key], "a key is there twice"],
      [[{ ...key, id: "0".repeat(64) }], "the id is not the SHA-256 of the key"],
      [[{ ...key, public_key: "AAAA" }], "must be 32 bytes"],
    ] as const
  ) assertThrows(() => parseTrust(JSON.stringify({ ...document, keys }), "t"), SbxError, problem);
  assertThrows(() => parseTrust(JSON.stringify({ ...document, root: 1 }), "t"), SbxError, "root");
});

Deno.test("a private key that is none is refused, and never quoted", async () => {
  const pem = await generateSigningKey();
  const lines = pem.split("\n");
  for (
    const text of [
      "",
      "secret",
      lines[1],
      pem.replace("PRIVATE", "PUBLIC"),
      pem.replace(lines[1], "c2VjcmV0"),
      pem + pem,
    ]
  ) {
    const error = await assertRejects(
      () => parseSigningKey(text, "k.pem"),
      SbxError,
      "k.pem is not an Ed25519 private key",
    );
    assertEquals([error.cause, error.message.includes("c2VjcmV0")], [undefined, false]);
  }
});
