/**
 * Conversations that outlive a VM: kept as they came, for one agent and folder, and unpacked
 * without anything else of them.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { BUILTIN_PROFILES, historyPaths, loadProfile } from "../../../lib/config/profile/mod.ts";
import {
  findHistory,
  historyBytes,
  keepHistory,
  listHistories,
  NO_HISTORY,
  PACK_HISTORY,
  removeHistory,
  UNPACK_HISTORY,
} from "../../../lib/setup/mod.ts";
import { runChild } from "../../helper/child.ts";

const ABOUT = { agent: "claude", dir: "/home/ada/shop", place: "/root/shop", vm: "claude-shop" };

async function* pieces(...texts: string[]) {
  for (const text of texts) yield new TextEncoder().encode(text);
}

const textOf = async (bytes: AsyncIterable<Uint8Array>) =>
  (await Array.fromAsync(bytes)).map((each) => new TextDecoder().decode(each)).join("");

async function makeDir() {
  const dir = await Deno.makeTempDir();
  return { dir, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("conversations are kept for one agent and one folder, the last ones in place of earlier ones", async () => {
  await using home = await makeDir();
  await keepHistory(home, ABOUT, pieces("first"), { now: new Date(0) });
  const kept = await keepHistory(home, ABOUT, pieces("sec", "ond"), { now: new Date(1000) });
  assertEquals([kept.size, await textOf(historyBytes(home, kept))], [6, "second"]);
  assertEquals(await findHistory(home, "claude", ABOUT.dir), kept);
  assertEquals(await findHistory(home, "codex", ABOUT.dir), undefined);
  assertEquals(await findHistory(home, "claude", "/home/ada/shop2"), undefined);
  const [folder] = await Array.fromAsync(Deno.readDir(join(home.dir, "history")));
  const files = await Array.fromAsync(Deno.readDir(join(home.dir, "history", folder.name)));
  assertEquals(files.map(({ name }) => name).sort(), [kept.digest, "lock", "record.json"].sort());
  for (const { name } of files) {
    const { mode } = await Deno.stat(join(home.dir, "history", folder.name, name));
    assertEquals(mode! & 0o777, 0o600);
  }
  assertEquals((await listHistories(home)).map(({ vm }) => vm), ["claude-shop"]);
  assert(await removeHistory(home, "claude", ABOUT.dir));
  assertEquals([await removeHistory(home, "claude", ABOUT.dir), await listHistories(home)], [false, []]);
});

Deno.test("too many bytes leave the kept ones as they were, and bytes that changed are not given back", async () => {
  await using home = await makeDir();
  await assertRejects(
    () => keepHistory(home, ABOUT, pieces("12345", "6"), { max: 5 }),
    SbxError,
    "over 5 bytes",
  );
  assertEquals(await Array.fromAsync(Deno.readDir(join(home.dir, "history"))), []);
  const kept = await keepHistory(home, ABOUT, pieces("12345"), { max: 5 });
  const broken = async function* () {
    yield* pieces("1");
    throw new Error("the VM is gone");
  };
  await assertRejects(() => keepHistory(home, ABOUT, broken()), Error, "the VM is gone");
  assertEquals(await textOf(historyBytes(home, kept)), "12345");
  const [folder] = await Array.fromAsync(Deno.readDir(join(home.dir, "history")));
  const at = (name: string) => join(home.dir, "history", folder.name, name);
  assertEquals((await Array.fromAsync(Deno.readDir(at(".")))).length, 3, "nothing half is left");
  await Deno.writeTextFile(at(kept.digest), "54321");
  const error = await assertRejects(() => textOf(historyBytes(home, kept)), SbxError);
  assertEquals(error.code, "agent.history_damaged");
  await Deno.writeTextFile(at("record.json"), JSON.stringify({ ...kept, dir: "/home/eve" }));
  await assertRejects(() => findHistory(home, "claude", ABOUT.dir), SbxError, "damaged");
  await Deno.writeTextFile(at("record.json"), JSON.stringify({ ...kept, digest: "../../x" }));
  await assertRejects(() => findHistory(home, "claude", ABOUT.dir), SbxError, "damaged");
});

Deno.test("a VM whose conversations cannot be kept takes nothing from another one of its folder that could", async () => {
  await using home = await makeDir();
  const other = Promise.withResolvers<void>();
  const fails = async function* () {
    yield* pieces("1");
    await other.promise;
    throw new Error("the VM is gone");
  };
  const failing = assertRejects(() => keepHistory(home, ABOUT, fails()), Error, "the VM is gone");
  const kept = await keepHistory(home, ABOUT, pieces("kept"));
  other.resolve();
  await failing;
  assertEquals(await textOf(historyBytes(home, kept)), "kept");
  await Deno.writeTextFile(join(home.dir, "history", ".DS_Store"), "");
  assertEquals(await listHistories(home), [kept]);
});

Deno.test("of VMs that are deleted at once, one's conversations stay, whole; what a killed command left goes", async () => {
  await using home = await makeDir();
  const texts = Array.from({ length: 8 }, (_, at) => `${at}`.repeat(1000 + at));
  await Promise.all(texts.map((text) => keepHistory(home, ABOUT, pieces(text))));
  const kept = await findHistory(home, "claude", ABOUT.dir);
  assert(texts.includes(await textOf(historyBytes(home, kept!))));
  const [folder] = await Array.fromAsync(Deno.readDir(join(home.dir, "history")));
  const left = join(home.dir, "history", folder.name, ".coming-0");
  await Deno.writeTextFile(left, "half");
  await Deno.utime(left, new Date(0), new Date(0));
  await keepHistory(home, ABOUT, pieces("next"));
  const names = (await Array.fromAsync(Deno.readDir(join(home.dir, "history", folder.name)))).map((
    { name },
  ) => name);
  assertEquals(names.filter((name) => !/^[0-9a-f]{64}$/.test(name)).sort(), ["lock", "record.json"]);
  assertEquals(names.length, 3);
});

Deno.test("what is packed is what the agent's profile names; each agent that takes up conversations names some", async () => {
  for (const id of BUILTIN_PROFILES.keys()) {
    const { agent } = await loadProfile({ profilesDir: "/nonexistent" }, id);
    if (!agent) continue;
    const paths = historyPaths(agent);
    assertEquals(paths.length > 0, agent.continue !== undefined, id);
    for (const path of paths) {
      assert(path.startsWith("/root/.") && path.split("/").length > 3, path);
      assert(
        !Object.keys(agent.files).some((file) => `${file}/`.startsWith(`${path}/`)),
        `${path} has a file of sbx`,
      );
      const setup = agent.setup!;
      const taken = [...setup.texts, ...setup.programs, ...Object.keys(setup.settings)];
      assert(!taken.some((each) => `/root/${each}/`.startsWith(`${path}/`)), `${path} has a setting`);
    }
  }
  assertEquals(historyPaths({ continue: { command: ["x"], headless: ["x"], conversations: "/root/*" } }), []);
});

async function run(script: string, ...args: string[]): Promise<{ code: number; stderr: string }> {
  const { code, stderr } = await runChild("sh", { args: ["-c", script, "sh", ...args] });
  return { code, stderr: new TextDecoder().decode(stderr) };
}

Deno.test("conversations go from one guest to another", async () => {
  await using place = await makeDir();
  const at = (path: string) => join(place.dir, path);
  await Deno.mkdir(at("old/root/.claude/projects/-root-shop"), { recursive: true });
  await Deno.mkdir(at("new/root/.claude/projects/stale"), { recursive: true });
  assertEquals((await run(PACK_HISTORY, at("old"), at("a/x.tar"), "/root/.nothing")).code, NO_HISTORY);
  await Deno.writeTextFile(at("old/root/.claude/projects/-root-shop/1.jsonl"), "{}\n");
  const packed = await run(
    PACK_HISTORY,
    at("old"),
    at("a/x.tar"),
    "/root/.nothing",
    "/root/.claude/projects",
  );
  assertEquals(packed, { code: 0, stderr: "" });
  assertEquals(await run(UNPACK_HISTORY, at("new"), at("a/x.tar"), "/root/.claude/projects"), {
    code: 0,
    stderr: "",
  });
  assertEquals(await Deno.readTextFile(at("new/root/.claude/projects/-root-shop/1.jsonl")), "{}\n");
  const left = [at("a"), at("new/var/tmp"), at("new/root/.claude/projects")];
  const names = await Promise.all(left.map((dir) => Array.fromAsync(Deno.readDir(dir))));
  assertEquals(names.flat().map(({ name }) => name), ["-root-shop"]);
});
