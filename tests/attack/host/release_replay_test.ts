/** A release server that replays what a publisher once signed: rollback, freeze, mix-and-match, clocks. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { signRecord } from "../../../lib/release/mod.ts";
import { bytesOf, Client, DAY, INDEX_URL, Publisher } from "../../helper/release.ts";

/** Runs an attack against clients that trust signatures, and against clients that have HMAC keys only. */
function onBoth(name: string, attack: (publisher: Publisher, client: Client) => Promise<void>): void {
  for (const kind of ["signed", "HMAC only"] as const) {
    Deno.test(`${name} (${kind})`, async () => {
      const publisher = await Publisher.start();
      await using client = await Client.of(
        publisher,
        kind === "signed" ? publisher.keys : publisher.hmacOnly,
      );
      await attack(publisher, client);
    });
  }
}

async function refused(check: () => Promise<unknown>, code: string, message: string): Promise<void> {
  assertEquals((await assertRejects(check, SbxError, message)).code, code);
}

onBoth("rollback: an index that is older than the one seen before", async (publisher, client) => {
  await publisher.release("1.0.0");
  const old = publisher.snapshot();
  await publisher.release("1.1.0");
  assertEquals((await client.check()).record.version, "1.1.0");
  publisher.replay(old);
  await refused(() => client.check(), "release.rollback", "is older than the one of");
});

onBoth("rollback: the newest release is left out of a new index", async (publisher, client) => {
  await publisher.release("1.0.0");
  await publisher.release("1.1.0");
  await client.check();
  publisher.index.channels.stable.manifests.pop();
  await publisher.sign();
  await refused(
    () => client.check(),
    "release.rollback",
    'channel "stable" had version 1.1.0 and now ends with 1.0.0',
  );
});

Deno.test("rollback: a record from before its revocation in a new index, which HMACs alone allow to be assembled", async () => {
  const publisher = await Publisher.start();
  const before = await publisher.release("1.0.0");
  await using client = await Client.of(publisher, publisher.hmacOnly);
  await client.check();
  await publisher.mark("1.0.0", "revoked");
  await publisher.release("1.1.0");
  await client.check();
  publisher.index.channels.stable.manifests[0] = before;
  publisher.index.generated_at = new Date(Date.parse(publisher.index.generated_at) + DAY).toISOString();
  publisher.put("channels.json", bytesOf(JSON.stringify(publisher.index)));
  await refused(() => client.check(), "release.rollback", "was revoked and is said to be current");
  // A person who accepts a downgrade does not take a revocation back.
  await refused(() => client.check({ downgrade: { by: "ada" } }), "release.rollback", "was revoked");
});

onBoth("rollback: a revoked record disappears, and comes back as a good one", async (publisher, client) => {
  await publisher.release("1.0.0");
  await client.check();
  await publisher.mark("1.0.0", "revoked");
  await publisher.release("1.1.0");
  await client.check();
  const [revoked] = publisher.index.channels.stable.manifests.splice(0, 1);
  await publisher.sign();
  await client.check();
  publisher.index.channels.stable.manifests.unshift(
    signRecord(publisher.hmac, { ...revoked, status: "current" }),
  );
  await publisher.sign();
  await refused(() => client.check(), "release.rollback", "was revoked and is said to be current");
});

onBoth(
  "a revoked release may leave the index, also as the highest one: it is not installed again",
  async (publisher, client) => {
    await publisher.release("1.0.0");
    await publisher.release("2.0.0");
    await client.check();
    await publisher.mark("2.0.0", "revoked");
    assertEquals((await client.check()).record.version, "1.0.0");
    publisher.index.channels.stable.manifests.pop();
    await publisher.sign();
    assertEquals((await client.check()).record.version, "1.0.0");
    assertEquals((await client.memory.read()).followed[0].manifests["2.0.0"].status, "revoked");
  },
);

onBoth("freeze: an index that nobody signed for more than 30 days", async (publisher, client) => {
  await publisher.release("1.0.0");
  const signed = Date.parse(publisher.index.generated_at);
  await client.check({ now: new Date(signed + 30 * DAY) });
  const late = () => client.check({ now: new Date(signed + 30 * DAY + 1) });
  await refused(late, "release.frozen", "more than 30 days ago");
});

onBoth("a clock that is wrong by a year, here or at the publisher", async (publisher, client) => {
  await publisher.release("1.0.0");
  const signed = Date.parse(publisher.index.generated_at);
  await refused(() => client.check({ now: new Date(signed + 365 * DAY) }), "release.frozen", "days ago");
  await refused(
    () => client.check({ now: new Date(signed - 365 * DAY) }),
    "release.clock.invalid",
    "was generated at",
  );
  const by = { by: "ada" };
  const early = () => client.check({ now: new Date(signed - 365 * DAY), downgrade: by });
  await refused(early, "release.clock.invalid", "was generated at");
  // Nothing of the future was remembered: the right clock still works.
  assertEquals((await client.check()).record.version, "1.0.0");
});

Deno.test("mix-and-match: a record of another channel, with its valid HMAC", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  const nightly = await publisher.release("9.0.0", { channel: "nightly" });
  await using client = await Client.of(publisher, publisher.hmacOnly);
  await client.check();
  publisher.index.channels.stable.manifests.push(nightly);
  publisher.put("channels.json", bytesOf(JSON.stringify(publisher.index)));
  await refused(
    () => client.check(),
    "release.mismatch",
    'the manifest of release 9.0.0 of channel "stable" is that of release 9.0.0 of channel "nightly"',
  );
  // The foreign version is not remembered as the highest one of this channel.
  publisher.index.channels.stable.manifests.pop();
  publisher.put("channels.json", bytesOf(JSON.stringify(publisher.index)));
  assertEquals((await client.check()).record.version, "1.0.0");
});

onBoth("mix-and-match: the manifest or profile of another release", async (publisher, client) => {
  await publisher.release("1.0.0");
  await publisher.release("1.1.0");
  const manifest = publisher.get("assets/stable/1.1.0/manifest.json");
  const profile = publisher.get("profiles/code-1.1.0.toml");
  publisher.put("assets/stable/1.1.0/manifest.json", publisher.get("assets/stable/1.0.0/manifest.json"));
  await refused(() => client.check(), "release.mismatch", "is not what its record says");
  publisher.put("assets/stable/1.1.0/manifest.json", manifest);
  publisher.put("profiles/code-1.1.0.toml", publisher.get("profiles/code-1.0.0.toml"));
  await refused(() => client.check(), "release.mismatch", "profile code 1.1.0 is not what its record says");
  publisher.put("profiles/code-1.1.0.toml", profile);
  assertEquals((await client.check()).record.version, "1.1.0");
});

onBoth("mix-and-match: another manifest under a version that is known", async (publisher, client) => {
  await publisher.release("1.0.0");
  await client.check();
  publisher.index.channels.stable.manifests = [];
  await publisher.release("1.0.0", { profiles: [{ id: "code", revision: "6.6.6", rootfs: "d".repeat(64) }] });
  const again = () => client.check({ downgrade: { by: "ada" } });
  await refused(again, "release.mismatch", 'release 1.0.0 of channel "stable" is another one than before');
});

onBoth("a channel that disappears keeps what is known of it", async (publisher, client) => {
  await publisher.release("1.0.0");
  await publisher.mark("1.0.0", "revoked");
  await publisher.release("1.1.0");
  await client.check();
  const { stable } = publisher.index.channels;
  publisher.index.channels = { nightly: stable };
  await publisher.sign();
  const error = await assertRejects(() => client.check(), SbxError, 'there is no channel "stable"');
  assertEquals([error.code, error.hint], ["release.channel.not_found", "its channels: nightly"]);
  const { followed: [{ manifests }] } = await client.memory.read();
  assertEquals(Object.entries(manifests).map(([version, { status }]) => [version, status]).sort(), [
    ["1.0.0", "revoked"],
    ["1.1.0", "current"],
  ]);
  publisher.index.channels = { stable };
  await publisher.sign();
  assertEquals((await client.check()).record.version, "1.1.0");
});

onBoth("a downgrade that a person accepts is taken once, and recorded", async (publisher, client) => {
  await publisher.release("1.0.0");
  const old = publisher.snapshot();
  const { generated_at } = publisher.index;
  await publisher.release("1.1.0");
  await client.check();
  publisher.replay(old);
  const { record, accepted } = await client.check({ downgrade: { by: "ada" } });
  assertEquals([record.version, accepted.length], ["1.0.0", 2]);
  const { downgrades, followed: [followed] } = await client.memory.read();
  assertEquals(downgrades.map(({ by, url, channel, accepted }) => ({ by, url, channel, accepted })), [
    { by: "ada", url: INDEX_URL.href, channel: "stable", accepted },
  ]);
  assertEquals([followed.generated_at, Object.keys(followed.manifests)], [generated_at, ["1.0.0"]]);
  // From now on this state counts, and a check needs no flag.
  assertEquals((await client.check()).accepted, []);
  assertEquals((await client.memory.read()).downgrades.length, 1);
});

Deno.test("each address and channel has a memory of its own: one server cannot roll another back", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await publisher.release("5.0.0", { channel: "nightly" });
  await using client = await Client.of(publisher);
  await client.check({ channel: "nightly" });
  assertEquals((await client.check()).record.version, "1.0.0");
});
