/**
 * The register of a home's sessions: holes, changes and cut ends are noticed, and nothing stops it for long.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { checkEntries, readRegister, Register, registerPath } from "../../../lib/fleet/register/mod.ts";
import { newKey, SESSION_A, SESSION_B } from "../../helper/fleet.ts";

const REMOVAL = { reason: "person", heads: null, by: { user: "ann", client: "sbx" } } as const;

async function inHome(work: (home: { dir: string }, path: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work({ dir }, registerPath({ dir }));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("register: sessions are numbered once each, over restarts, and a removal stays", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    const first = await Register.open(home, key);
    await Promise.all([first.begin(SESSION_A), first.begin(SESSION_A), first.begin(SESSION_B)]);
    const register = await Register.open(home, key);
    await register.begin(SESSION_A);
    await register.remove(SESSION_A, REMOVAL);
    await register.remove(SESSION_A, REMOVAL);
    const { entries, problems } = await readRegister(path, key.publicKey);
    assertEquals(problems, []);
    assertEquals(entries.map(({ number, kind }) => [number, kind]), [[1, "begun"], [2, "begun"], [
      3,
      "removed",
    ]]);
    assertEquals([register.isRemoved(SESSION_A), register.isRemoved(SESSION_B)], [true, false]);
    assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  }));

Deno.test("register: a removed, a changed and a foreign entry are noticed", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    const register = await Register.open(home, key);
    for (const id of [SESSION_A, SESSION_B]) await register.begin(id);
    await register.remove(SESSION_A, REMOVAL);
    const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
    const stranger = await Register.open({ dir: join(home.dir, "other") }, await newKey());
    await stranger.begin(SESSION_A);
    const foreign = (await Deno.readTextFile(registerPath({ dir: join(home.dir, "other") }))).trimEnd();
    for (
      const [bad, at] of [
        [[lines[0], lines[2]], 2],
        [[lines[1], lines[2]], 1],
        [[lines[0], lines[1].replace("payloadType", "payloadtype"), lines[2]], 2],
        [[foreign, lines[1]], 1],
        [["{}"], 1],
      ] as [string[], number][]
    ) {
      await Deno.writeTextFile(path, bad.map((line) => `${line}\n`).join(""));
      assertStringIncludes((await readRegister(path, key.publicKey)).problems.join(), `line ${at} is not`);
    }
    // The service goes on, and says that it did.
    const after = await Register.open(home, key);
    await after.begin(SESSION_B);
    const { entries, problems } = await readRegister(path, key.publicKey);
    assertEquals(entries.map(({ kind }) => kind), ["restarted", "begun"]);
    assertEquals(problems, ["entry 1 begins again: 1 lines before it could not be read"]);
  }));

Deno.test("register: a line that a power cut left unfinished is dropped", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    await (await Register.open(home, key)).begin(SESSION_A);
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text + text.slice(0, 40));
    const register = await Register.open(home, key);
    await register.begin(SESSION_B);
    const { entries, problems } = await readRegister(path, key.publicKey);
    assertEquals([entries.map(({ number }) => number), problems], [[1, 2], []]);
  }));

Deno.test("register: a damaged one is never without its mark, whichever write fails", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    const first = await Register.open(home, key);
    for (const id of [SESSION_A, SESSION_B]) await first.begin(id);
    const [good] = (await Deno.readTextFile(path)).split("\n");
    const damaged = `${good}\n{}\n`;
    await Deno.writeTextFile(path, damaged);
    // No new file in the folder, as on a full disk: neither the backup nor the next register.
    await Deno.chmod(dirname(path), 0o500);
    const stopped = Deno.uid() === 0
      ? undefined
      : await assertRejects(() => Register.open(home, key), SbxError);
    await Deno.chmod(dirname(path), 0o700);
    if (stopped) {
      assertEquals([stopped.code, await Deno.readTextFile(path)], ["register.unavailable", damaged]);
    }
    // Every state of the file on the way is either the damaged register or the marked one.
    const states = new Set<string>();
    const watcher = Deno.watchFs(dirname(path));
    const watching = (async () => {
      for await (const _ of watcher) states.add(await Deno.readTextFile(path).catch(() => "(absent)"));
    })();
    await Register.open(home, key);
    const marked = await Deno.readTextFile(path);
    watcher.close();
    await watching;
    for (const state of states) assert(state === damaged || state === marked, state);
    assertEquals((await readRegister(path, key.publicKey)).entries.map(({ kind }) => kind), [
      "begun",
      "restarted",
    ]);
  }));

Deno.test("register: holes and breaks are named by number", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    const register = await Register.open(home, key);
    for (const id of [SESSION_A, SESSION_B]) await register.begin(id);
    await register.remove(SESSION_A, REMOVAL);
    await register.remove(SESSION_B, REMOVAL);
    const { entries: [one, two, three, four] } = await readRegister(path, key.publicKey);
    assertEquals(checkEntries([one, four]), ["entries 2 to 3 are missing"]);
    assertEquals(checkEntries([two]), ["entry 1 is missing"]);
    const other = { ...two, at: "2020-01-01T00:00:00Z" };
    assertEquals(checkEntries([one, other, three]), [
      "entry 3 does not follow the one before it: one of them was replaced",
    ]);
  }));

Deno.test("register: one that cannot be written is an error, and later entries follow", () =>
  inHome(async (home, path) => {
    const key = await newKey();
    const register = await Register.open(home, key);
    await register.begin(SESSION_A);
    const text = await Deno.readTextFile(path);
    await Deno.remove(path);
    await Deno.mkdir(path);
    const error = await assertRejects(() => register.begin(SESSION_B), SbxError);
    assertEquals(error.code, "register.unavailable");
    await Deno.remove(path);
    await Deno.writeTextFile(path, text);
    await register.begin(SESSION_B);
    assertEquals((await readRegister(path, key.publicKey)).problems, []);
  }));
