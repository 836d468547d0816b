/**
 * Bundles of policy from a publisher's workspace to machines: staged, verified,
 * joined with corp.toml, taken back.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { home as findHome } from "../../../lib/base/home/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type CorpConfig, CorpStore, loadCorp } from "../../../lib/config/corp/mod.ts";
import { packBundle, readActive, readBundleStatus, updateBundle } from "../../../lib/fleet/bundle/mod.ts";
import { bundleLayer, bundlePaths } from "../../../lib/fleet/layer/mod.ts";
import {
  addEntries,
  describeBundle,
  markRelease,
  openRelease,
  stageRelease,
  TRUST,
  Workspace,
} from "../../../lib/publish/mod.ts";
import { isStagedFor, placeOf, type Stage } from "../../../lib/release/mod.ts";
import { checkCorp } from "../../../lib/home/value_check/mod.ts";
import { ReleaseWorkspace } from "../../helper/release_workspace.ts";

const CHANNEL = "fleet";
const machineId = (at: number) => at.toString(16).padStart(64, "0");
const RULE = (host: string, rest = 'action = "block"') =>
  `[corp.rules.no-evil]\n${rest}\nmatch = 'http.request.host == "${host}"'\n`;

/** Loads a configuration that must be in force. */
async function good(store: CorpStore): Promise<CorpConfig> {
  const state = await store.load();
  if (state.status !== "ok") throw new Error(JSON.stringify(state));
  return state.config;
}

/** A publisher, and a machine whose corp.toml names its channel. */
class Rollout implements AsyncDisposable {
  private constructor(readonly publisher: ReleaseWorkspace, readonly dir: string) {}

  static async make(): Promise<Rollout> {
    // Signed a few hours ago each: an index of the future is refused, and one of 30 days ago too.
    const publisher = await ReleaseWorkspace.make(Date.now() - 20 * 86_400_000);
    return new Rollout(publisher, await Deno.makeTempDir());
  }

  async release(version: string, files: Record<string, string>): Promise<void> {
    const folder = join(this.dir, `bundle-${version}`);
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(join(folder, name, ".."), { recursive: true });
      await Deno.writeTextFile(join(folder, name), text);
    }
    const content = await packBundle(folder);
    const target = { channel: CHANNEL, version };
    await Workspace.change(this.publisher.dir, async (workspace) => {
      const place = await openRelease(workspace, target);
      await addEntries(workspace, target, { bundles: [await describeBundle(workspace, place, content)] });
    });
    await this.publish();
  }

  async stage(version: string, stage: Stage): Promise<void> {
    await Workspace.change(this.publisher.dir, (each) => stageRelease(each, CHANNEL, version, stage));
    await this.publish();
  }

  async revoke(version: string): Promise<void> {
    await Workspace.change(this.publisher.dir, (each) => markRelease(each, CHANNEL, version, "revoked"));
    await this.publish();
  }

  async publish(): Promise<void> {
    await this.publisher.sign();
    await this.publisher.publish();
  }

  /** A machine's home and corp.toml. */
  async machine(name: string, corp = "", labels: string[] = []) {
    const home = findHome({ get: (key) => key === "SBX_HOME" ? join(this.dir, name) : undefined });
    await Deno.mkdir(home.dir);
    const path = join(this.dir, `${name}.toml`);
    const url = pathToFileURL(join(this.publisher.out, "channels.json")).href;
    const text = `${corp}
[fleet]
bundles_url = "${url}"
labels = ${JSON.stringify(labels)}
[release]
trust_file = "${join(this.publisher.dir, TRUST)}"
`;
    await Deno.writeTextFile(path, text);
    const store = new CorpStore(home, { managed: path }, checkCorp, bundleLayer(home));
    const update = async (id = 1, downgrade?: { by: string }) =>
      await updateBundle({
        home,
        own: await loadCorp(path),
        machineId: machineId(id),
        check: checkCorp,
        ...(downgrade && { downgrade }),
      });
    return { home, path, store, update };
  }

  async [Symbol.asyncDispose]() {
    await this.publisher[Symbol.asyncDispose]();
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("a bundle takes effect beside corp.toml, with the files that it names", async () => {
  await using rollout = await Rollout.make();
  await rollout.release("1.0.0", {
    "corp.toml": `${
      RULE("evil.example.com")
    }[corp_rule_files]\nenforcement = "rules/more.toml"\n[settings."vm.resources.cpu_count"]\nvalue = 2\n`,
    "rules/more.toml": RULE("bad.example.com").replace("no-evil", "no-bad"),
  });
  const { store, update, home } = await rollout.machine("one");
  assertEquals((await store.load()).status, "ok");
  const status = await update();
  assertEquals([status.state, status.in_force, status.offered], ["installed", "1.0.0", "1.0.0"]);
  const config = await good(store);
  assertEquals(Object.keys(config.file.corp.rules), ["no-evil"]);
  assertEquals(config.file.settings["vm.resources.cpu_count"]?.value, 2);
  assertEquals(config.bundle?.version, "1.0.0");
  assertEquals((await update()).state, "same");
  assertEquals((await readBundleStatus(home))?.state, "same");
  // Whoever changes a file of it changes nothing.
  const files = join(bundlePaths(home).version("1.0.0"), "files");
  await Deno.writeTextFile(join(files, "rules/more.toml"), "");
  await Deno.writeTextFile(join(files, "corp.toml"), "");
  assertEquals(Object.keys((await good(store)).file.corp.rules), ["no-evil"]);
  assert((await Deno.readTextFile(join(files, "rules/more.toml"))).includes("bad.example.com"));
});

Deno.test("what corp.toml of the machine says holds, and a bundle that would loosen it is refused", async () => {
  await using rollout = await Rollout.make();
  const own =
    `[settings."vm.resources.cpu_count"]\nvalue = 1\n[corp.rules.lock]\naction = "block"\nmatch = "true"\npriority = -50\n`;
  const { store, update, home } = await rollout.machine("one", own);
  await rollout.release("1.0.0", {
    "corp.toml": `[settings."vm.resources.cpu_count"]\nvalue = 8\n${
      RULE("ok.example.com", 'action = "allow"\npriority = -20')
    }[corp.rules.lock]\naction = "block"\nmatch = "false"\npriority = -90\n`,
  });
  const { held } = await update();
  assertEquals(held, ["settings.vm.resources.cpu_count", "corp.rules.lock"]);
  const config = await good(store);
  assertEquals(config.file.settings["vm.resources.cpu_count"]?.value, 1);
  assertEquals(config.file.corp.rules.lock.match, "true");
  const loosening = {
    "1.1.0": RULE("evil.example.com", 'action = "allow"\npriority = -60'),
    "1.2.0": '[fleet]\nurl = "https://elsewhere.example.com"\n',
    "1.3.0": '[release]\ntrust_file = "mine.json"\n',
    "1.4.0": '[corp.rules.bad]\naction = "block"\nmatch = "no such thing("\n',
    "1.5.0": "[nonsense]\nkey = 1\n",
    "1.6.0": '[settings."network.mcp_logins"]\nvalue = "false"\n',
    "1.7.0": '[settings."network.mcp_login"]\nvalue = false\n',
  };
  for (const [version, text] of Object.entries(loosening)) {
    await rollout.release(version, { "corp.toml": text });
    const error = await assertRejects(() => update(), SbxError);
    assert(
      ["bundle.refused", "bundle.invalid"].includes(error.code),
      `${version}: ${error.code} ${error.message}`,
    );
    assert(error.hint, `${version}: ${error.message}`);
    assertEquals((await readActive(home))?.version, "1.0.0");
    assertEquals((await readBundleStatus(home))?.state, "failed");
    assertEquals((await store.load()).status, "ok");
  }
});

Deno.test("a stage grows by machines and labels, and keeps those it has", async () => {
  const ids = Array.from({ length: 1000 }, (_, at) => machineId(at));
  const staged = (percent: number, channel = CHANNEL) =>
    ids.filter((id) => isStagedFor({ stage: { percent } }, channel, { id, labels: [] }));
  const [few, many] = [staged(10), staged(50)];
  assert(
    few.length > 60 && few.length < 140 && many.length > 430 && many.length < 570,
    `${few.length} ${many.length}`,
  );
  assert(few.every((id) => many.includes(id)));
  assert(few.some((id) => !staged(10, "other").includes(id)));
  assertEquals([staged(0).length, staged(100).length], [0, 1000]);
  assert(!isStagedFor({ stage: { percent: 99 } }, CHANNEL, undefined));

  await using rollout = await Rollout.make();
  const canary = await rollout.machine("canary", "", ["canary"]);
  const other = await rollout.machine("other");
  await rollout.release("1.0.0", { "corp.toml": RULE("a.example.com") });
  await rollout.release("2.0.0", { "corp.toml": RULE("b.example.com") });
  await rollout.stage("2.0.0", { percent: 100, labels: ["canary"] });
  assertEquals((await canary.update(1)).in_force, "2.0.0");
  assertEquals((await other.update(2)).in_force, "1.0.0");
  const id = ids.findIndex((each) => placeOf(each, CHANNEL) < 10);
  await rollout.stage("2.0.0", { percent: 10 });
  assertEquals((await other.update(id)).in_force, "2.0.0");
  await rollout.stage("2.0.0", { percent: 0 });
  assertEquals((await other.update(id)).state, "kept");
  assertEquals((await readActive(other.home))?.version, "2.0.0");
});

Deno.test("a revoked bundle gives way to the one before, and nothing else goes back", async () => {
  await using rollout = await Rollout.make();
  const { update, store, home } = await rollout.machine("one");
  await rollout.release("1.0.0", { "corp.toml": RULE("a.example.com") });
  const old = await Deno.makeTempDir();
  await new Deno.Command("cp", { args: ["-a", `${rollout.publisher.out}/.`, old] }).output();
  await update();
  await rollout.release("2.0.0", { "corp.toml": RULE("b.example.com") });
  assertEquals((await update()).in_force, "2.0.0");
  // A server that goes back in time.
  const now = `${old}-now`;
  await Deno.rename(rollout.publisher.out, now);
  await Deno.rename(old, rollout.publisher.out);
  assertEquals((await assertRejects(() => update(), SbxError)).code, "release.rollback");
  await Deno.remove(rollout.publisher.out, { recursive: true });
  await Deno.rename(now, rollout.publisher.out);
  await rollout.revoke("2.0.0");
  const status = await update();
  assertEquals([status.state, status.in_force], ["installed", "1.0.0"]);
  const config = await good(store);
  assert(config.file.corp.rules["no-evil"].match.includes("a.example.com"));
  // Nothing is left: what is in force stays, and the reason is told.
  await rollout.revoke("1.0.0");
  const last = await update();
  assertEquals([last.state, last.in_force], ["revoked", "1.0.0"]);
  assert(last.problem?.includes("bundle 1.0.0 is revoked"), String(last.problem));
  // The next check finds the same.
  assertEquals((await update()).state, "revoked");
  assertEquals((await readActive(home))?.version, "1.0.0");
});

Deno.test("a changed bundle locks, with the last good one in force, and the next check repairs it", async () => {
  await using rollout = await Rollout.make();
  const { update, store, home } = await rollout.machine("one");
  await rollout.release("1.0.0", { "corp.toml": RULE("evil.example.com") });
  await update();
  assertEquals((await store.load()).status, "ok");
  const { version, active } = bundlePaths(home);
  for (const name of ["bundle.json", "manifest.json", "channels.json.dsse"]) {
    const path = join(version("1.0.0"), name);
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(
      path,
      text.replace("evil", "good").replace("1.0.0", "1.0.1").replace(/[A-Z]/, "x"),
    );
    const state = await store.load();
    assert(state.status === "last_good" && state.error.message.includes("the bundle fleet 1.0.0"), name);
    assertEquals((await update()).in_force, "1.0.0");
    assertEquals((await store.load()).status, "ok", name);
  }
  await Deno.writeTextFile(active, '{"schema":');
  assertEquals((await store.load()).status, "last_good");
  await update();
  assertEquals((await store.load()).status, "ok");
});
