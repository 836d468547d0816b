import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { privateTemp } from "../../../lib/base/temp/mod.ts";

const UID = Deno.uid() ?? 0;
const NAME = `sbx-${UID}`;

async function withFolders(
  test: (folders: { tmp: string; run: string; home: string }) => void | Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const [tmp, run, home] = ["tmp", "run", "home"].map((name) => join(dir, name));
  try {
    await Deno.mkdir(tmp);
    await Deno.mkdir(run);
    await test({ tmp, run, home });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const find = (env: Record<string, string>) => privateTemp({ uid: UID, env: { get: (name) => env[name] } });
const modeOf = (path: string) => Deno.statSync(path).mode! & 0o777;

Deno.test("temporary files are in a folder of this user below TMPDIR, which children take over", () =>
  withFolders(({ tmp, run }) => {
    const own = join(tmp, NAME);
    assertEquals(find({ TMPDIR: tmp, XDG_RUNTIME_DIR: run }), { dir: own });
    assertEquals(modeOf(own), 0o700);
    assertEquals(find({ TMPDIR: tmp }), { dir: own }, "again");
    assertEquals(find({ TMPDIR: own }), { dir: own });
    assertEquals([...Deno.readDirSync(run)], []);
  }));

Deno.test("a folder that another user made first keeps this one from nothing", () =>
  withFolders(async ({ tmp, run, home }) => {
    const taken = join(tmp, NAME);
    await Deno.mkdir(taken);
    // What a folder of another user looks like: root can make one, others a folder that everybody may enter.
    if (UID === 0) await Deno.chown(taken, 65534, 65534);
    else await Deno.chmod(taken, 0o777);
    assertEquals(find({ TMPDIR: tmp, XDG_RUNTIME_DIR: run, SBX_HOME: home }), { dir: join(run, NAME) });
    assertEquals(find({ TMPDIR: tmp, SBX_HOME: home }), { dir: join(home, "tmp", NAME) });
    assertEquals([modeOf(home), modeOf(join(home, "tmp", NAME))], [0o700, 0o700]);
    assertEquals(find({ TMPDIR: tmp, HOME: home }), { dir: join(home, ".sbx/tmp", NAME) });
    await Deno.chmod(join(run, NAME), 0o755);
    assertEquals(find({ TMPDIR: tmp, XDG_RUNTIME_DIR: run }), { refused: taken });
    await Deno.remove(join(run, NAME));
    await Deno.chmod(run, 0o777);
    assertEquals(find({ TMPDIR: tmp, XDG_RUNTIME_DIR: run }), { refused: taken }, "others may write there");
  }));

Deno.test("a link in its place is not followed", () =>
  withFolders(async ({ tmp, run, home }) => {
    await Deno.mkdir(home, { mode: 0o700 });
    await Deno.symlink(home, join(tmp, NAME));
    assertEquals(find({ TMPDIR: tmp, XDG_RUNTIME_DIR: run }), { dir: join(run, NAME) });
  }));

Deno.test("where no folder can be made, none is refused either", () => {
  assertEquals(find({ TMPDIR: "/proc/none", HOME: "/proc/none" }), { refused: undefined });
});
