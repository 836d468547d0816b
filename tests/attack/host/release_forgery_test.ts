/**
 * A release server without the publisher's keys, or with one that was stolen: arbitrary
 * software, endless data, bombs.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  INDEX_BYTES_MAX,
  INDEX_PAYLOAD_TYPE,
  MANIFEST_BYTES_MAX,
  parseIndex,
  signPayload,
  signRecord,
} from "../../../lib/release/mod.ts";
import { bytesOf, Client, hmacKey, INDEX_URL, Publisher, signingKey } from "../../helper/release.ts";

async function refused(client: Client, code: string, message: string): Promise<void> {
  const error = await assertRejects(() => client.check(), SbxError, message);
  assertEquals(error.code, code);
  assert(error.message.length < 2000);
  assertEquals((await client.memory.read()).followed, [], "nothing is remembered of it");
}

async function published(): Promise<Publisher> {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await publisher.release("1.1.0");
  return publisher;
}

Deno.test("arbitrary software: an index without the signature of a trusted key", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  publisher.signers = [await signingKey()];
  await publisher.sign();
  await refused(client, "release.signature.invalid", "none of them trusted");
});

Deno.test("arbitrary software: no signature at all, for a client that trusts signatures", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  publisher.files.delete(`${INDEX_URL.href}.dsse`);
  await assertRejects(() => client.check(), SbxError, "nothing at");
  // channels.json with good HMACs is no way around it.
  assertEquals(publisher.fetched.includes(INDEX_URL.href), false);
});

Deno.test("arbitrary software: a changed index under the old signature", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  const envelope = JSON.parse(new TextDecoder().decode(publisher.get("channels.json.dsse")));
  const text = new TextDecoder().decode(Uint8Array.fromBase64(envelope.payload)).replace(
    "stable/1.1.0",
    "stable/6.6.6",
  );
  publisher.put(
    "channels.json.dsse",
    bytesOf(JSON.stringify({ ...envelope, payload: bytesOf(text).toBase64() })),
  );
  await refused(client, "release.signature.invalid", "did not sign this");
});

Deno.test("arbitrary software: a record without a valid HMAC, also of a release that would not be installed", async () => {
  for (const at of [0, 1]) {
    const publisher = await published();
    await using client = await Client.of(publisher, publisher.hmacOnly);
    const { manifests } = publisher.index.channels.stable;
    manifests[at] = signRecord(hmacKey("k1", 0x66), { ...manifests[at], url: "assets/evil/manifest.json" });
    publisher.put("channels.json", bytesOf(JSON.stringify(publisher.index)));
    await refused(
      client,
      "release.hmac.invalid",
      `no release key verifies release 1.${at}.0 of channel "stable"`,
    );
  }
});

Deno.test("arbitrary software: the HMAC of another record", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher, publisher.hmacOnly);
  const [a, b] = publisher.index.channels.stable.manifests;
  [a.digest.hmac, b.digest.hmac] = [b.digest.hmac, a.digest.hmac];
  publisher.put("channels.json", bytesOf(JSON.stringify(publisher.index)));
  await refused(client, "release.hmac.invalid", "no release key verifies release 1.0.0");
});

Deno.test("arbitrary software: a manifest or profile with other bytes of the same length", async () => {
  for (const path of ["assets/stable/1.1.0/manifest.json", "profiles/code-1.1.0.toml"]) {
    const publisher = await published();
    await using client = await Client.of(publisher);
    const bytes = publisher.get(path);
    publisher.put(path, bytes.with(bytes.length - 2, bytes[bytes.length - 2] ^ 1));
    const error = await assertRejects(
      () => client.check(),
      SbxError,
      "is not what its record says: its SHA-256 is",
    );
    assertEquals(error.code, "release.mismatch");
    const { followed: [{ manifests }] } = await client.memory.read();
    assertEquals(manifests, {}, "no release is remembered whose files are not verified");
  }
});

Deno.test("key compromise: a stolen key signs nothing any more once it is out of the trust document", async () => {
  const publisher = await published();
  const stolen = publisher.signers[0];
  await using client = await Client.of(publisher);
  await client.check();
  publisher.signers = [await signingKey()];
  await publisher.release("1.2.0");
  client.keys = { hmac: [publisher.hmac], trusted: publisher.signers.map(({ publicKey }) => publicKey) };
  assertEquals((await client.check()).record.version, "1.2.0");
  publisher.signers = [stolen];
  await publisher.release("6.6.6");
  await assertRejects(() => client.check(), SbxError, "none of them trusted");
});

Deno.test("key compromise: whoever has the HMAC key alone cannot sign an index, and the other way round", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  const thief = new Publisher(publisher.hmac, [await signingKey()]);
  await thief.release("6.6.6");
  publisher.replay(thief.files);
  await refused(client, "release.signature.invalid", "none of them trusted");
  const other = new Publisher(hmacKey("k1", 0x66), publisher.signers);
  await other.release("6.6.6");
  publisher.replay(other.files);
  await refused(client, "release.hmac.invalid", "no release key verifies release 6.6.6");
});

Deno.test("keys swapped: the id of a trusted key on the signature of another", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  const [trusted, other] = [publisher.signers[0], await signingKey()];
  const envelope = await signPayload(INDEX_PAYLOAD_TYPE, publisher.get("channels.json"), [other]);
  const signatures = envelope.signatures.map(({ sig }) => ({ keyid: trusted.publicKey.id, sig }));
  publisher.put("channels.json.dsse", bytesOf(JSON.stringify({ ...envelope, signatures })));
  await refused(client, "release.signature.invalid", "did not sign this");
});

Deno.test("a signature for another purpose is none of an index", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher);
  const envelope = await signPayload(
    "application/vnd.in-toto+json",
    publisher.get("channels.json"),
    publisher.signers,
  );
  publisher.put("channels.json.dsse", bytesOf(JSON.stringify(envelope)));
  await refused(client, "release.signature.invalid", "it is of a application/vnd.in-toto+json");
});

Deno.test("endless data: a document over its limit, from a fetch that does not stop", async () => {
  const publisher = await published();
  await using client = await Client.of(publisher, publisher.hmacOnly);
  const limits: number[] = [];
  const endless = (url: URL, max: number) => {
    limits.push(max);
    if (url.href === INDEX_URL.href) return Promise.resolve(new Uint8Array(INDEX_BYTES_MAX + 1));
    return publisher.fetch(url, max);
  };
  Object.assign(publisher, { fetch: endless });
  await refused(client, "release.invalid", `is over ${INDEX_BYTES_MAX} bytes`);
  assertEquals(limits, [INDEX_BYTES_MAX]);
  assert(MANIFEST_BYTES_MAX < INDEX_BYTES_MAX);
});

Deno.test("JSON bombs: nesting, a million keys, long numbers and names end in an error", async () => {
  const bombs = [
    "[".repeat(INDEX_BYTES_MAX),
    `{"a":${"[".repeat(9)}${"]".repeat(9)}}`,
    `{${Array.from({ length: 300_000 }, (_, at) => `"k${at}":0`).join(",")}}`,
    `{"version":1,"generated_at":"2026-11-25T03:00:00Z","channels":{${
      Array.from({ length: 100_000 }, (_, at) => `"c${at}":{"label":"x","manifests":[]}`).join(",")
    }}}`,
    `{"version":1${"0".repeat(1_000_000)},"generated_at":"x","channels":{}}`,
    `{"version":1,"generated_at":"2026-11-25T03:00:00Z","channels":{"${"a".repeat(1_000_000)}":{}}}`,
  ];
  for (const bomb of bombs) {
    const publisher = await published();
    await using client = await Client.of(publisher, publisher.hmacOnly);
    publisher.put("channels.json", bytesOf(bomb));
    await refused(client, "release.invalid", "the channel index");
  }
});

Deno.test("a channel with more records than anybody needs, or one version twice", () => {
  const digest = { sha256: "a".repeat(64), blake3: "a".repeat(64), hmac: "a".repeat(64) };
  const read = (versions: string[]) => {
    const manifests = versions.map((version) => ({ version, status: "current", url: "m", digest }));
    const index = {
      version: 1,
      generated_at: "2026-11-25T03:00:00Z",
      channels: { stable: { label: "x", manifests } },
    };
    return () => Promise.resolve(parseIndex(bytesOf(JSON.stringify(index)), "test"));
  };
  const many = Array.from({ length: 1001 }, (_, at) => `1.0.${at}`);
  return Promise.all([
    assertRejects(async () => await read(many)(), SbxError, "manifests"),
    assertRejects(
      async () => await read(["1.0.0", "2.0.0", "1.0.0"])(),
      SbxError,
      "version 1.0.0 is there twice",
    ),
  ]);
});

Deno.test("addresses that leave the server's folder, or use another scheme, are refused although they are signed", async () => {
  for (
    const url of [
      "../../etc/passwd",
      "/etc/passwd",
      "file:///etc/passwd",
      "ftp://h/m",
      "assets/%2e%2e/m",
      "a\\b",
    ]
  ) {
    const publisher = await published();
    await using client = await Client.of(publisher);
    const { manifests } = publisher.index.channels.stable;
    manifests[1] = signRecord(publisher.hmac, { ...manifests[1], url });
    await publisher.sign();
    await refused(client, "release.invalid", "channels.stable.manifests.1.url");
    assert(publisher.fetched.every((fetched) => fetched.startsWith(new URL(".", INDEX_URL).href)));
  }
});
