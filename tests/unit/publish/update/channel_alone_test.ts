/** A channel that a publisher makes, served on loopback, followed by a home (docs/guides/updates.md). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { ARCHES, currentArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { bootAssets, loadProfile } from "../../../../lib/config/profile/mod.ts";
import { formatUpdates } from "../../../../cmd/sbx/admin/update.ts";
import { addEntries, describeProfile, openRelease, Workspace } from "../../../../lib/publish/mod.ts";
import { corpPlaces, CorpStore } from "../../../../lib/config/corp/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../../lib/config/settings/mod.ts";
import { Updates } from "../../../../lib/service/mod.ts";
import { Follower } from "../../../helper/follower.ts";

Deno.test("a release is checked, installed with its image, and followed by a newer one", async () => {
  await using follower = await Follower.make();
  const before = await follower.updates.status();
  assertEquals([before.last_check, before.source?.channel, before.schedule?.interval_secs], [
    undefined,
    "stable",
    86_400,
  ]);
  await follower.updates.check();
  assertEquals(await follower.state(), "new");
  assertEquals((await follower.install()).profiles, [{ id: "code", revision: "1.0.0", state: "new" }]);
  const assets = await bootAssets(follower.home, await loadProfile(follower.home, "code"), "x86_64");
  assertEquals(await Deno.readTextFile(assets.rootfs.path), "rootfs.erofs 1.0.0");
  assertEquals([await follower.state(), (await follower.install()).profiles[0].state], ["same", "same"]);
  await follower.publish("1.1.0");
  await follower.updates.check();
  assertEquals(await follower.state(), "newer");
  await follower.install(["code"]);
  assertEquals((await loadProfile(follower.home, "code")).revision, "1.1.0");
  const status = await follower.updates.status();
  assertEquals(status.history.map(({ what, from, to }) => [what, from, to]), [
    ["profile", "1.0.0", "1.1.0"],
    ["profile", undefined, "1.0.0"],
  ]);
  const text = formatUpdates(status);
  for (
    const part of ["release 1.1.0 (current)", "sbx 1.1.0 is available", "1.0.0 → 1.1.0", "stable of http://"]
  ) {
    assert(text.includes(part), text);
  }
  assertEquals((await assertRejects(() => follower.install(["none"]), SbxError)).code, "profile.not_found");
});

Deno.test("files of an installed profile that are gone come again with the next update", async () => {
  await using follower = await Follower.make();
  await follower.install();
  const { assetsDir } = follower.home;
  const names = async () =>
    (await Array.fromAsync(Deno.readDir(assetsDir), ({ name }) => name)).filter((name) => name !== ".lock")
      .sort();
  const before = await names();
  assertEquals(before.length, 4);
  for (const name of before) await Deno.remove(join(assetsDir, name));
  const [{ state }] = (await follower.install(["code"])).profiles;
  assertEquals([state, await names()], ["same", before]);
});

Deno.test("a profile that was changed by hand is kept", async () => {
  await using follower = await Follower.make();
  await follower.install();
  const path = join(follower.home.profilesDir, "code/profile.toml");
  const mine = (await Deno.readTextFile(path)) + "\n# mine\n";
  await Deno.writeTextFile(path, mine);
  await follower.publish("1.1.0");
  assertEquals((await follower.install()).profiles[0].state, "yours");
  assertEquals(await Deno.readTextFile(path), mine);
});

Deno.test("after a revocation an older release is installed only by a person's word, and that is recorded", async () => {
  await using follower = await Follower.make();
  await follower.publish("1.1.0");
  await follower.install();
  await follower.mark("1.1.0", "revoked");
  await follower.updates.check();
  assertEquals(await follower.state(), "older");
  const error = await assertRejects(() => follower.install(), SbxError);
  assertEquals(error.code, "assets.downgrade");
  await follower.install([], true);
  assertEquals((await loadProfile(follower.home, "code")).revision, "1.0.0");
  const [change] = (await follower.updates.status()).history;
  assertEquals([change.from, change.to, change.downgrade], ["1.1.0", "1.0.0", true]);
});

Deno.test("a server that goes back in time is refused, and the failure is the last check", async () => {
  await using follower = await Follower.make();
  const names = ["channels.json", "channels.json.dsse"].map((name) => join(follower.workspace.out, name));
  const old = await Promise.all(names.map((name) => Deno.readFile(name)));
  await follower.publish("1.1.0");
  await follower.updates.check();
  for (const [at, name] of names.entries()) await Deno.writeFile(name, old[at]);
  const error = await assertRejects(() => follower.updates.check(), SbxError);
  assertEquals(error.code, "release.rollback");
  const { last_check } = await follower.updates.status();
  assert(last_check?.problem?.includes(error.message.slice(0, 20)));
  assert(formatUpdates(await follower.updates.status()).includes("FAILED"));
  await assertRejects(() => follower.install(), SbxError);
});

Deno.test("a profile without an image for this machine leaves the installed one, and keeps no other one away", async () => {
  await using follower = await Follower.make();
  await follower.install();
  const { workspace } = follower;
  const [other] = ARCHES.filter((arch) => arch !== currentArch());
  const assets = await workspace.image("other", other);
  const file = join(workspace.root, "plain", "profile.toml");
  await Deno.mkdir(dirname(file));
  await Deno.writeTextFile(file, 'id = "plain"\nname = "P"\ndescription = ""\nrevision = "1.1.0"\n');
  await Workspace.change(workspace.dir, async (change) => {
    const target = { channel: "stable", version: "1.1.0" };
    const folder = await openRelease(change, target);
    const profiles = [
      await describeProfile(change, folder, { assets, revision: "1.1.0" }),
      await describeProfile(change, folder, { file }),
    ];
    await addEntries(change, target, { profiles });
  });
  await workspace.sign();
  await workspace.publish();
  const { code, message } = await assertRejects(() => follower.install(), SbxError);
  assertEquals([code, message], [
    "assets.arch.not_found",
    `profile "code" 1.1.0 has no image for ${currentArch()}`,
  ]);
  assertEquals((await loadProfile(follower.home, "code")).revision, "1.0.0");
  await bootAssets(follower.home, await loadProfile(follower.home, "code"), currentArch());
  assertEquals((await loadProfile(follower.home, "plain")).revision, "1.1.0");
});

Deno.test("an image that does not match its pin installs nothing, and the next update does", async () => {
  await using follower = await Follower.make();
  const files = await follower.workspace.published();
  const name = [...files.keys()].find((each) => each.endsWith("x86_64-rootfs.erofs"))!;
  const path = join(follower.workspace.out, name);
  const good = await Deno.readFile(path);
  await Deno.writeTextFile(path, "rootfs.erofs 6.6.6");
  assertEquals((await assertRejects(() => follower.install(), SbxError)).code, "assets.mismatch");
  assert(
    !await Deno.stat(join(follower.home.profilesDir, "code/profile.toml")).then(() => true, () => false),
  );
  await Deno.writeFile(path, good);
  await follower.install();
});

Deno.test("without a channel, with an invalid one, with a closed corp.toml and without keys nothing is fetched", async () => {
  await using follower = await Follower.make();
  Deno.env.set("SBX_RELEASE_CHANNELS_URL", "ftp://x/channels.json");
  const { problems, source, schedule } = await follower.updates.status();
  assertEquals([problems.length, source, schedule?.interval_secs], [1, undefined, undefined]);
  Deno.env.delete("SBX_RELEASE_CHANNELS_URL");
  assertEquals(
    (await assertRejects(() => follower.updates.check(), SbxError)).code,
    "update.source.not_found",
  );
  assertEquals((await assertRejects(() => follower.install(), SbxError)).code, "update.source.not_found");
  Deno.env.set("SBX_RELEASE_CHANNELS_URL", follower.server.url);
  Deno.env.delete("SBX_RELEASE_TRUST_FILE");
  assertEquals((await assertRejects(() => follower.updates.check(), SbxError)).code, "release.keys.missing");
  const corp = join(follower.dir, "corp.toml");
  await Deno.writeTextFile(corp, "broken = ");
  Deno.env.set("SBX_CORP_CONFIG", corp);
  assertEquals((await assertRejects(() => follower.install(), SbxError)).code, "corp.closed");
});

Deno.test("profiles of the channel install by themselves when corp says so, but for the ones that a person changed", async () => {
  await using follower = await Follower.make();
  const { home, server } = follower;
  const corp = join(follower.dir, "corp.toml");
  const release = `[release]\nchannels_url = "${server.url}"\n`;
  await Deno.writeTextFile(corp, release);
  Deno.env.set("SBX_CORP_CONFIG", corp);
  const definitions = await loadDefinitions();
  const open = async () => {
    const store = new CorpStore(home, corpPlaces());
    await store.load();
    const settings = await SettingsStore.open({ home, corp: store, definitions });
    await settings.edit({ "app.auto_update": false });
    return new Updates({ home, settings, corp: store });
  };
  let updates = await open();
  assertEquals((await updates.status()).schedule?.reason, "app.auto_update is off");
  await updates.check();
  await assertRejects(() =>
    loadProfile(home, "code").then(({ revision }) => assertEquals(revision, "1.0.0"))
  );
  await Deno.writeTextFile(corp, `${release}install_profiles = true\n`);
  updates = await open();
  assertEquals((await updates.status()).schedule?.interval_secs, 86_400);
  await updates.check();
  assertEquals((await loadProfile(home, "code")).revision, "1.0.0");
  await follower.publish("1.1.0");
  const { last_check } = await updates.check();
  assertEquals([(await loadProfile(home, "code")).revision, last_check?.profiles?.[0].state], [
    "1.1.0",
    "same",
  ]);
  const path = join(home.profilesDir, "code/profile.toml");
  await Deno.writeTextFile(path, (await Deno.readTextFile(path)) + "\n# mine\n");
  await follower.publish("1.2.0");
  await updates.check();
  assertEquals((await loadProfile(home, "code")).revision, "1.1.0");
});
