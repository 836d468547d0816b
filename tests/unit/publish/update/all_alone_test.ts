/** `sbx update` without arguments: everything that a home follows (docs/guides/updates.md). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { generateManifest, installAssets } from "../../../../lib/release/asset/mod.ts";
import { ARCHES, currentArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { silent } from "../../../../lib/base/progress/mod.ts";
import { packBundle } from "../../../../lib/fleet/bundle/mod.ts";
import {
  addEntries,
  describeBundle,
  describeProfile,
  openRelease,
  TRUST,
  Workspace,
} from "../../../../lib/publish/mod.ts";
import { updateAll, type UpdateReport } from "../../../../lib/home/mod.ts";
import { runChild } from "../../../helper/child.ts";
import { Follower } from "../../../helper/follower.ts";
import { Publisher } from "../../../helper/publisher.ts";
import { fromRoot } from "../../../helper/repo.ts";
import { ReleaseWorkspace } from "../../../helper/release_workspace.ts";

const ARCH = "x86_64";
const script = (version: string) => `#!/bin/sh\necho '{"version": "${version}"}'\n`;

type Options = Partial<Parameters<typeof updateAll>[0]>;

function updateOf(home: Follower["home"], options: Options = {}): Promise<UpdateReport> {
  const fixed = { home, arch: ARCH, imagesOnly: false, allowDowngrade: false, progress: silent } as const;
  return updateAll({ ...fixed, ...options });
}

const states = ({ updates }: UpdateReport) =>
  updates.map(({ what, name, version, state }) => [what, name, version, state]);

/** The home of a publisher, without a channel. @param corp makes the text of its corp.toml */
async function withPublisher(
  test: (publisher: Publisher) => Promise<void>,
  corp: (publisher: Publisher) => string = () => "",
): Promise<void> {
  await using publisher = await Publisher.start();
  const path = join(publisher.home.dir, "corp.toml");
  await Deno.writeTextFile(path, corp(publisher));
  Deno.env.set("SBX_CORP_CONFIG", path);
  try {
    await test(publisher);
  } finally {
    Deno.env.delete("SBX_CORP_CONFIG");
  }
}

Deno.test("program, profiles and images are installed together, then are the newest", async () => {
  await using follower = await Follower.make((workspace) => workspace.program = script);
  await using images = await Publisher.start();
  const { home } = follower;
  await installAssets({ manifestUrl: images.url, home, arch: ARCH });
  await images.publish("2026.0101.2");
  const path = join(follower.dir, "sbx");
  await Deno.writeTextFile(path, script("0.9.0"), { mode: 0o755 });
  const first = await updateOf(home, { path });
  assertEquals(states(first), [
    ["program", undefined, "1.0.0", "installed"],
    ["image", "code", "2026.0101.2", "installed"],
    ["profile", "code", "1.0.0", "installed"],
  ]);
  assertEquals(first.updates.map(({ from }) => from), ["0.9.0", "2026.0101.1", undefined]);
  assertEquals(await Deno.readTextFile(path), script("1.0.0"));
  assertEquals(states(await updateOf(home, { path })).map(([, , , state]) => state), [
    "newest",
    "newest",
    "newest",
  ]);
  // An update without a change is none in the history.
  const { history } = await follower.updates.status();
  assertEquals(history.map(({ what, to }) => `${what} ${to}`), [
    "profile 1.0.0",
    "assets 2026.0101.2",
    "program 1.0.0",
  ]);
});

Deno.test("a program of others is named with their way to update it, and what fails keeps nothing else back", async () => {
  await using follower = await Follower.make();
  const { workspace, home } = follower;
  const [other] = ARCHES.filter((arch) => arch !== currentArch());
  const assets = await workspace.image("other", other);
  await Workspace.change(workspace.dir, async (change) => {
    const target = { channel: "stable", version: "1.1.0" };
    const folder = await openRelease(change, target);
    const file = join(workspace.root, "plain", "profile.toml");
    await Deno.mkdir(join(workspace.root, "plain"));
    await Deno.writeTextFile(file, 'id = "plain"\nname = "P"\ndescription = ""\nrevision = "1.1.0"\n');
    const profiles = [
      await describeProfile(change, folder, { assets, revision: "1.1.0" }),
      await describeProfile(change, folder, { file }),
    ];
    await addEntries(change, target, { profiles });
  });
  await workspace.sign();
  await workspace.publish();
  assertEquals(states(await updateOf(home)), [
    ["profile", "code", "1.1.0", "failed"],
    ["profile", "plain", "1.1.0", "installed"],
  ]);
  await follower.publish("1.2.0");
  const [program] = (await updateOf(home)).updates;
  // The tests run from sources.
  assertEquals([program.what, program.version, program.state], ["program", "1.2.0", "available"]);
  assert(program.hint?.includes("git pull"));
});

Deno.test("a channel that cannot be trusted is a failure of its own, and images are updated", async () => {
  await using follower = await Follower.make();
  await using images = await Publisher.start();
  await installAssets({ manifestUrl: images.url, home: follower.home, arch: ARCH });
  await images.publish("2026.0101.2");
  await Deno.writeTextFile(join(follower.workspace.out, "channels.json.dsse"), "{}");
  const report = await updateOf(follower.home);
  assertEquals(states(report), [
    ["channel", "stable", undefined, "failed"],
    ["image", "code", "2026.0101.2", "installed"],
  ]);
  assertEquals(report.updates[0].code, "release.invalid");
});

Deno.test("with nothing configured the error says what can be", () =>
  withPublisher(async ({ home, dir }) => {
    const refused = async (options?: Options) => await assertRejects(() => updateOf(home, options), SbxError);
    for (const imagesOnly of [false, true]) {
      const { code, message, hint } = await refused({ imagesOnly });
      assertEquals([code, message], ["update.source.not_found", "no source of updates is configured"]);
      for (const part of ["SBX_RELEASE_CHANNELS_URL=", "channels_url and manifest_url", "--manifest URL"]) {
        assert(hint?.includes(part), hint);
      }
    }
    // An image that was built here came from a folder that is gone.
    await Deno.rename(dir, `${dir}.moved`);
    await installAssets({ manifestUrl: `file://${dir}.moved/manifest.json`, home, arch: ARCH });
    await Deno.rename(`${dir}.moved`, dir);
    const { message, hint } = await refused();
    assert(message.includes('the image of "code" came from file://') && message.includes("is gone"), message);
    assert(hint?.includes("sbx image build code builds it"), hint);
  }));

Deno.test("corp's manifest comes first, installs what is missing, and counts alone for its profile", () =>
  withPublisher(async (publisher) => {
    const { home } = publisher;
    await using old = await Publisher.start();
    assertEquals(states(await updateOf(home)), [["image", "code", "2026.0101.1", "installed"]]);
    await old.publish("2025.0101.1");
    await installAssets({ manifestUrl: old.url, home, arch: ARCH, allowDowngrade: true });
    assertEquals(states(await updateOf(home)), [["image", "code", "2026.0101.1", "installed"]]);
  }, ({ dir }) => `[release]\nmanifest_url = "file://${dir}/manifest.json"\n`));

Deno.test("where corp.toml cannot be read nothing is updated, since it may name other sources", () =>
  withPublisher(async (publisher) => {
    await publisher.install();
    for (const imagesOnly of [false, true]) {
      const { code } = await assertRejects(() => updateOf(publisher.home, { imagesOnly }), SbxError);
      assertEquals(code, "corp.closed");
    }
  }, () => "[release"));

Deno.test("an image goes back by a person's word alone; one that a hash is trusted for is kept", () =>
  withPublisher(async (publisher) => {
    const { home, dir } = publisher;
    await publisher.install();
    await publisher.publish("2025.0101.1");
    const [refused] = (await updateOf(home)).updates;
    assertEquals([refused.state, refused.code], ["failed", "assets.downgrade"]);
    assertEquals(states(await updateOf(home, { allowDowngrade: true })), [
      ["image", "code", "2025.0101.1", "installed"],
    ]);
    const path = join(home.assetsDir, "manifest-origin.json");
    const origin = JSON.parse(await Deno.readTextFile(path));
    origin.source = "http://192.0.2.1/manifest.json";
    await Deno.writeTextFile(path, JSON.stringify(origin));
    await generateManifest(dir, { binaryVersion: "0.1.0", version: "2026.0101.3" });
    const { message } = await assertRejects(() => updateOf(home), SbxError);
    assert(message.endsWith("which is trusted by a hash alone"), message);
  }));

Deno.test("the rules of the fleet's channel are installed, then are the newest", async () => {
  await using workspace = await ReleaseWorkspace.make(Date.now() - 10 * 86_400_000);
  const folder = join(workspace.root, "bundle");
  await Deno.mkdir(folder);
  await Deno.writeTextFile(
    join(folder, "corp.toml"),
    `[corp.rules.no-evil]\naction = "block"\nmatch = 'http.request.host == "evil.example"'\n`,
  );
  const content = await packBundle(folder);
  await Workspace.change(workspace.dir, async (change) => {
    const target = { channel: "stable", version: "1.0.0" };
    const place = await openRelease(change, target);
    await addEntries(change, target, { bundles: [await describeBundle(change, place, content)] });
  });
  await workspace.sign();
  await workspace.publish();
  await withPublisher(async ({ home }) => {
    assertEquals(states(await updateOf(home)), [["rules", "stable", "1.0.0", "installed"]]);
    assertEquals(states(await updateOf(home)), [["rules", "stable", "1.0.0", "newest"]]);
  }, () =>
    `[fleet]\nbundles_url = "file://${workspace.out}/channels.json"\nbundles_channel = "stable"\n` +
    `[release]\ntrust_file = "${join(workspace.dir, TRUST)}"\n`);
});

Deno.test("the command: without sources it fails with one sentence and what to do; options need each other", async () => {
  const home = await Deno.makeTempDir();
  const sbx = async (...args: string[]) => {
    const options = { args: ["run", "-A", "--quiet", fromRoot("main.ts"), "update", ...args] };
    const { code, stdout, stderr } = await runChild(Deno.execPath(), { ...options, env: { SBX_HOME: home } });
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    return { code, out, err };
  };
  const none = await sbx();
  assertEquals([none.code, none.out], [1, ""]);
  assert(/^sbx: no source of updates is configured\n.*SBX_RELEASE_CHANNELS_URL/.test(none.err), none.err);
  const { code } = JSON.parse((await sbx("--json")).err);
  assertEquals(code, "update.source.not_found");
  for (
    const [args, message] of [
      [["--manifest", "file:///m.json"], "--manifest needs --assets"],
      [["--assets", "--mirror", "https://m.example/"], "--mirror needs --manifest"],
      [["--arch", "arm64"], "--arch needs --assets"],
    ] as const
  ) {
    const refused = await sbx(...args);
    assertEquals([refused.code, refused.out], [2, ""]);
    assert(refused.err.includes(message), refused.err);
  }
  await Deno.remove(home, { recursive: true });
});
