/** Changes of a shared folder on the host, for watchers of its guest. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { FolderChanges, type GuestAction } from "../../../../lib/machine/live/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

const BLIND = join(import.meta.dirname!, "../../../helper/blind_watcher.ts");

/** Watches a new folder, with a workspace beside it. */
async function watched(tell?: GuestAction) {
  const root = await Deno.makeTempDir();
  const [dir, workspace] = [join(root, "app"), join(root, "workspace")];
  for (const each of ["src", ".git", ".husky", "node_modules"]) {
    await Deno.mkdir(join(dir, each), { recursive: true });
  }
  await Deno.mkdir(join(workspace, "app"), { recursive: true });
  const woken: string[] = [], looked: string[] = [];
  let drops = 0;
  const changes = new FolderChanges({ dir, name: "app", top: [".husky"], workspace });
  const guest: GuestAction = (action, paths) => {
    if (action === "wake") woken.push(...paths);
    else if (paths.length === 0) drops++;
    else looked.push(...paths);
    return Promise.resolve();
  };
  changes.tell(tell ?? guest);
  // Its timers keep no process alive.
  const alive = setInterval(() => {}, 1000);
  const over = async () => {
    clearInterval(alive);
    changes.close();
    await Deno.remove(root, { recursive: true });
  };
  return { dir, workspace, woken, looked, drops: () => drops, over };
}

Deno.test("a guest is woken for files that are changed, made and removed, also in new folders", async () => {
  const { dir, woken, over } = await watched();
  try {
    await Deno.writeTextFile(join(dir, "src/a.txt"), "one");
    await eventually("it is woken", () => woken.includes("app/src/a.txt"));
    await Deno.mkdir(join(dir, "src/new"));
    await eventually("it is woken for the folder", () => woken.includes("app/src/new"));
    await Deno.writeTextFile(join(dir, "src/new/b.txt"), "two");
    await eventually("it is woken below it", () => woken.includes("app/src/new/b.txt"));
    woken.length = 0;
    await Deno.remove(join(dir, "src/a.txt"));
    await eventually("it is woken for what has gone", () => woken.includes("app/src/a.txt"));
  } finally {
    await over();
  }
});

Deno.test("it is not woken for its own touch of a file, for masked names, nor where no program watches", async () => {
  const { dir, workspace, woken, looked, over } = await watched();
  try {
    const file = join(dir, "src/a.txt");
    await Deno.writeTextFile(file, "one");
    await eventually("it is woken", () => woken.includes("app/src/a.txt"));
    woken.length = 0;
    const { mode } = await Deno.stat(file);
    await Deno.chmod(file, mode! & 0o777);
    for (const each of [".git/config", ".husky/run", "node_modules/x.js", "src/HEAD"]) {
      await Deno.writeTextFile(join(dir, each), "x");
    }
    await Deno.writeTextFile(join(workspace, "beside"), "x");
    await Deno.writeTextFile(join(dir, "src/last"), "");
    await eventually("it is woken for the last", () => woken.includes("app/src/last"));
    assertEquals([...new Set(woken)], ["app/src/last"]);
    // It keeps names of these files, too.
    await eventually("it looks up the others", () => looked.includes("beside"));
    assertEquals([...new Set(looked)].sort(), ["app/node_modules/x.js", "beside"]);
  } finally {
    await over();
  }
});

Deno.test("a guest drops all names where thousands change, instead of looking each up", async () => {
  const { dir, looked, drops, over } = await watched();
  try {
    for (let at = 0; at < 3000; at++) Deno.writeTextFileSync(join(dir, `node_modules/${at}`), "");
    await eventually("it drops them", () => drops() > 0);
    assert(looked.length < 3000, `${looked.length}`);
    // A file that comes while the last of the thousands are read is among the dropped names.
    let later = 0;
    await eventually("one file is looked up again", async () => {
      await Deno.writeTextFile(join(dir, `node_modules/later-${++later}`), "");
      return looked.some((path) => path.startsWith("app/node_modules/later-"));
    });
  } finally {
    await over();
  }
});

Deno.test("changes of before the guest could hear reach it once it can", async () => {
  const root = await Deno.makeTempDir();
  await Deno.mkdir(join(root, "app"));
  await Deno.mkdir(join(root, "workspace"));
  const changes = new FolderChanges({
    dir: join(root, "app"),
    name: "app",
    top: [],
    workspace: join(root, "workspace"),
  });
  const alive = setInterval(() => {}, 1000);
  try {
    await Deno.writeTextFile(join(root, "app/early"), "");
    // The notice of a later file comes after its own.
    await new Promise((resolve) => setTimeout(resolve, 200));
    const woken: string[] = [];
    changes.tell((_, paths) => Promise.resolve(void woken.push(...paths)));
    await eventually("it hears of it", () => woken.includes("app/early"));
  } finally {
    clearInterval(alive);
    changes.close();
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("many changes reach the guest in messages of a limited size, one after the other", async () => {
  let under = 0;
  const sizes: number[] = [];
  const seen = new Set<string>();
  const { dir, over } = await watched(async (_, paths) => {
    assertEquals(++under, 1);
    sizes.push(paths.length);
    for (const path of paths) seen.add(path);
    await new Promise((resolve) => setTimeout(resolve, 0));
    under--;
  });
  try {
    for (let at = 0; at < 300; at++) await Deno.writeTextFile(join(dir, `src/${at}`), "");
    await eventually("all have come", () => seen.size === 300);
    assert(Math.max(...sizes) <= 64, sizes.join(" "));
  } finally {
    await over();
  }
});

Deno.test("a guest that could not take a message hears of the changes again", async () => {
  let calls = 0;
  const woken: string[] = [];
  const { dir, over } = await watched((action, paths) => {
    if (calls++ < 2) return Promise.reject(new Error("it runs as many programs as it may"));
    if (action === "wake") woken.push(...paths);
    return Promise.resolve();
  });
  try {
    await Deno.writeTextFile(join(dir, "src/a"), "");
    await eventually("it hears of it", () => woken.includes("app/src/a"));
    await Deno.writeTextFile(join(dir, "src/b"), "");
    await eventually("it hears of the next one", () => woken.includes("app/src/b"));
  } finally {
    await over();
  }
});

Deno.test("a name that is not UTF-8 ends no watch: the guest drops all names", async () => {
  const { dir, woken, drops, over } = await watched();
  try {
    const make = `touch "$1/src/$(printf '\\377')"`;
    await new Deno.Command("sh", { args: ["-c", make, "sh", dir] }).output();
    await eventually("it drops them", () => drops() > 0);
    await Deno.writeTextFile(join(dir, "src/a"), "");
    await eventually("it is woken for another file", () => woken.includes("app/src/a"));
    const before = drops();
    await Deno.writeTextFile(join(dir, "src/b"), "");
    await eventually("and for the next one", () => woken.includes("app/src/b"));
    assertEquals(drops(), before);
  } finally {
    await over();
  }
});

Deno.test("folders beyond the links of a shared folder are not watched", async () => {
  const { dir, woken, looked, over } = await watched();
  const outside = await Deno.makeTempDir();
  try {
    await Deno.symlink(outside, join(dir, "src/link"));
    await Deno.mkdir(join(outside, "prepared"));
    await Deno.symlink(outside, join(outside, "prepared/link"));
    await Deno.rename(join(outside, "prepared"), join(dir, "moved"));
    await eventually("it is woken for the folder", () => woken.includes("app/moved"));
    await Deno.writeTextFile(join(outside, "private"), "");
    await Deno.writeTextFile(join(dir, "moved/last"), "");
    await eventually("it is woken for the last", () => woken.includes("app/moved/last"));
    assertEquals([...woken, ...looked].filter((path) => path.includes("private")), []);
  } finally {
    await over();
    await Deno.remove(outside, { recursive: true });
  }
});

/** Runs the helper where its user has 12 watches: a user namespace has its own limit. */
async function withFewWatches(mode: "shared" | "alone"): Promise<string> {
  const script = 'echo 12 > /proc/sys/user/max_inotify_watches && exec "$@"';
  const program = ["run", "--quiet", "--allow-all", "--no-check", BLIND, mode];
  const { stdout, stderr } = await new Deno.Command("unshare", {
    args: ["-Ur", "sh", "-c", script, "sh", Deno.execPath(), ...program],
  }).output();
  const text = new TextDecoder();
  // Its standard error has a warning.
  return text.decode(stdout) || text.decode(stderr);
}

Deno.test({
  name: "without watches for new folders a guest drops all names again and again, and hears of the others",
  ignore: Deno.build.os !== "linux",
  fn: async () => assertEquals(await withFewWatches("shared"), "woken\n"),
});

Deno.test({
  name:
    "a folder with more folders than one program should watch is not watched any more, and names are dropped",
  ignore: Deno.build.os !== "linux",
  fn: async () => assertEquals(await withFewWatches("alone"), "0 watchers\n"),
});
