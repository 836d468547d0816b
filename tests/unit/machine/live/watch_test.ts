/** Changes of a shared folder on the host, for watchers of its guest. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { FolderChanges } from "../../../../lib/machine/live/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

/** Watches a new folder. */
async function watched(wake?: (paths: string[]) => Promise<void>) {
  const dir = await Deno.makeTempDir();
  for (const each of ["src", ".git", ".husky", "node_modules"]) await Deno.mkdir(join(dir, each));
  const woken: string[] = [];
  const changes = new FolderChanges(
    { dir, top: [".husky"] },
    wake ?? ((paths) => Promise.resolve(void woken.push(...paths))),
  );
  // Its timers keep no process alive.
  const alive = setInterval(() => {}, 1000);
  const over = async () => {
    clearInterval(alive);
    changes.close();
    await Deno.remove(dir, { recursive: true });
  };
  return { dir, woken, over };
}

Deno.test("a guest is woken for files that are changed, made and removed, also in new folders", async () => {
  const { dir, woken, over } = await watched();
  try {
    await Deno.writeTextFile(join(dir, "src/a.txt"), "one");
    await eventually("it is woken", () => woken.includes("src/a.txt"));
    await Deno.mkdir(join(dir, "src/new"));
    await eventually("it is woken for the folder", () => woken.includes("src/new"));
    await Deno.writeTextFile(join(dir, "src/new/b.txt"), "two");
    await eventually("it is woken below it", () => woken.includes("src/new/b.txt"));
    woken.length = 0;
    await Deno.remove(join(dir, "src/a.txt"));
    await eventually("it is woken for what has gone", () => woken.includes("src/a.txt"));
  } finally {
    await over();
  }
});

Deno.test("it is not woken for its own touch of a file, for masked names, nor where no program watches", async () => {
  const { dir, woken, over } = await watched();
  try {
    const file = join(dir, "src/a.txt");
    await Deno.writeTextFile(file, "one");
    await eventually("it is woken", () => woken.includes("src/a.txt"));
    woken.length = 0;
    const { mode } = await Deno.stat(file);
    await Deno.chmod(file, mode! & 0o777);
    for (const each of [".git/config", ".husky/run", "node_modules/x.js", "src/HEAD"]) {
      await Deno.writeTextFile(join(dir, each), "x");
    }
    await Deno.writeTextFile(join(dir, "src/last"), "");
    await eventually("it is woken for the last", () => woken.includes("src/last"));
    assertEquals([...new Set(woken)], ["src/last"]);
  } finally {
    await over();
  }
});

Deno.test("many changes reach the guest in messages of a limited size, one after the other", async () => {
  let under = 0;
  const sizes: number[] = [];
  const seen = new Set<string>();
  const { dir, over } = await watched(async (paths) => {
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

Deno.test("a guest that takes no such message gets no further one", async () => {
  let calls = 0;
  const { dir, over } = await watched(() => {
    calls++;
    return Promise.reject(new Error("of an earlier sbx"));
  });
  try {
    await Deno.writeTextFile(join(dir, "src/a"), "");
    await eventually("it was tried", () => calls === 1);
    await Deno.writeTextFile(join(dir, "src/b"), "");
    await new Promise((resolve) => setTimeout(resolve, 100));
    assertEquals(calls, 1);
  } finally {
    await over();
  }
});
