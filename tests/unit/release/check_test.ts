import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  digestBytes,
  readProfileDocument,
  standingOfAssets,
  standingOfProfile,
} from "../../../lib/release/mod.ts";
import { bytesOf, Client, INDEX_URL, profileDocument, Publisher, signingKey } from "../../helper/release.ts";

Deno.test("a channel is checked: signature, records, manifest, selection, memory", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0", { status: "supported" });
  await publisher.release("1.1.0");
  await using client = await Client.of(publisher);
  const { record, manifest, verifiedBy, accepted } = await client.check();
  assertEquals(record.version, "1.1.0");
  assertEquals(manifest.profiles.map(({ id, revision }) => [id, revision]), [["code", "1.1.0"]]);
  assertEquals(verifiedBy, { hmac: ["k1"], signatures: [publisher.signers[0].publicKey.id] });
  assertEquals(accepted, []);
  const { followed } = await client.memory.read();
  assertEquals(followed.map(({ url, channel, manifests }) => [url, channel, Object.keys(manifests)]), [
    [INDEX_URL.href, "stable", ["1.1.0"]],
  ]);
  assertEquals((await Deno.stat(client.memoryPath)).mode! & 0o777, 0o600);
});

Deno.test("a check without a signature reads channels.json, one with keys only its envelope", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await using signed = await Client.of(publisher);
  await signed.check();
  assertEquals(publisher.fetched[0], `${INDEX_URL.href}.dsse`);
  assertEquals(publisher.fetched.includes(INDEX_URL.href), false);
  publisher.fetched = [];
  await using unsigned = await Client.of(publisher, publisher.hmacOnly);
  await unsigned.check();
  assertEquals(publisher.fetched[0], INDEX_URL.href);
});

Deno.test("a second check fetches no manifest or profile of a release that it knows, but the selected manifest", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0", { status: "revoked" });
  await publisher.release("1.1.0");
  await using client = await Client.of(publisher);
  await client.check();
  publisher.fetched = [];
  await client.check();
  assertEquals(publisher.fetched.map((url) => url.slice(new URL(".", INDEX_URL).href.length)), [
    "channels.json.dsse",
    "assets/stable/1.1.0/manifest.json",
  ]);
});

Deno.test("what a revoked release contained is revoked, unless a good release has it too", async () => {
  const publisher = await Publisher.start();
  const [bad, good] = ["bad", "good"].map((text) => digestBytes(bytesOf(text)).blake3);
  await publisher.release("1.0.0", {
    profiles: [{ id: "a", revision: "1.0.0", rootfs: bad }, { id: "b", revision: "1.0.0", rootfs: good }],
  });
  await publisher.mark("1.0.0", "revoked");
  await publisher.release("1.1.0", {
    profiles: [{ id: "a", revision: "1.0.1", rootfs: good }, { id: "b", revision: "1.0.0", rootfs: good }],
  });
  await using client = await Client.of(publisher);
  await client.check();
  const memory = await client.memory.read();
  const statusOf = (id: string, revision: string, isBuiltin = false) =>
    standingOfProfile(memory, { id, revision, blake3: "f".repeat(64), isBuiltin })?.status;
  assertEquals(standingOfAssets(memory, [bad])?.status, "revoked");
  assertEquals(standingOfAssets(memory, [good])?.status, "current");
  assertEquals(standingOfAssets(memory, [good, bad])?.status, "revoked");
  assertEquals(standingOfAssets(memory, ["e".repeat(64)]), undefined);
  assertEquals(statusOf("a", "1.0.0"), "revoked");
  assertEquals(statusOf("a", "1.0.1"), "current");
  assertEquals(statusOf("b", "1.0.0"), "current");
  assertEquals(statusOf("a", "1.0.0", true), undefined);
  assertEquals(statusOf("c", "1.0.0"), undefined);
});

Deno.test("a revocation is remembered although nothing is left to install, and although a file is withheld", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await using client = await Client.of(publisher);
  const { manifest: { profiles: [{ id, revision, blake3 }] } } = await client.check();
  await publisher.mark("1.0.0", "revoked");
  await assertRejects(() => client.check(), SbxError, "has no release for sbx");
  const standing = async () =>
    standingOfProfile(await client.memory.read(), { id, revision, blake3, isBuiltin: true })?.status;
  assertEquals(await standing(), "revoked");
  await publisher.release("1.1.0");
  publisher.files.delete(new URL("assets/stable/1.1.0/manifest.json", INDEX_URL).href);
  await assertRejects(() => client.check(), SbxError, "nothing at");
  assertEquals(await standing(), "revoked");
});

Deno.test("a profile document must be of the id and revision of its entry, and says which boot files it pins", () => {
  const rootfs = "d".repeat(64);
  const read = (text: string) => {
    const { sha256, blake3 } = digestBytes(bytesOf(text));
    return readProfileDocument(bytesOf(text), {
      id: "code",
      revision: "1.0.0",
      url: "p",
      sha256,
      blake3,
      hmac: "0".repeat(64),
    });
  };
  const { assets } = read(profileDocument({ id: "code", revision: "1.0.0", rootfs }));
  assertEquals(assets, ["0".repeat(64), "1".repeat(64), rootfs]);
  assertEquals(read('id = "code"\nrevision = "1.0.0"\n').assets, []);
  for (
    const text of [
      profileDocument({ id: "core", revision: "1.0.0", rootfs }),
      profileDocument({ id: "code", revision: "1.0.1", rootfs }),
      "",
    ]
  ) {
    assertThrows(() => read(text), SbxError, "is that of another profile or revision");
  }
  assertThrows(() => read("id = "), SbxError, "is not TOML");
});

Deno.test("checks at once follow each other: none forgets what another one learned", async () => {
  const publisher = await Publisher.start();
  const channels = ["a", "b", "c", "d"];
  for (const channel of channels) await publisher.release("1.0.0", { channel });
  await using client = await Client.of(publisher);
  await Promise.all(channels.map((channel) => client.check({ channel })));
  const { followed } = await client.memory.read();
  assertEquals(followed.map(({ channel, manifests }) => [channel, Object.keys(manifests)]).sort(), [
    ["a", ["1.0.0"]],
    ["b", ["1.0.0"]],
    ["c", ["1.0.0"]],
    ["d", ["1.0.0"]],
  ]);
});

Deno.test("keys rotate: releases signed with both keys serve clients with either", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await using old = await Client.of(publisher);
  await old.check();
  const [before] = publisher.signers;
  publisher.signers = [before, await signingKey()];
  await publisher.release("1.1.0");
  assertEquals((await old.check()).verifiedBy.signatures, [before.publicKey.id]);
  await using fresh = await Client.of(publisher, { hmac: [], trusted: [publisher.signers[1].publicKey] });
  assertEquals((await fresh.check()).record.version, "1.1.0");
});
