/**
 * Packs of a guest: git's strict checks of each object, limits on their sizes,
 * and whether anything is missing.
 */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { Git } from "./git.ts";
import { OBJECT_MAX, TREE_MAX } from "./limit.ts";
import { refused, tooLarge } from "./refusal.ts";

/** Writes the pack, with git's own strict checks of each object. @param max most `bytes` of it */
export async function indexPack(git: Git, pack: AsyncIterable<Uint8Array>, max: number): Promise<void> {
  const args = ["index-pack", "--stdin", "--fix-thin", "--strict", `--max-input-size=${max}`];
  await git.runConfined(args, { input: pack }).catch((error) => {
    if (!(error instanceof SbxError) || error.code !== "repo.git_failed") throw error;
    throw refused(error.message);
  });
}

/**
 * The objects of all packs of a folder.
 * @param max most `bytes` of them, inflated
 * @throws {SbxError} `repo.too_large`
 */
export async function newObjects(
  git: Git,
  objects: string,
  max: number,
): Promise<{ id: string; type: string; size: number }[]> {
  const folder = join(objects, "pack");
  const ids: string[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    if (!name.endsWith(".idx")) continue;
    const listing = await git.text(["show-index"], { input: await Deno.readFile(join(folder, name)) });
    for (const line of listing.split("\n")) if (line !== "") ids.push(line.split(" ")[1]);
  }
  const input = new TextEncoder().encode(ids.map((id) => `${id}\n`).join(""));
  const listing = ids.length === 0
    ? ""
    : await git.text(["cat-file", "--batch-check", "--buffer"], { input });
  let inflated = 0;
  return listing.split("\n").filter((line) => line !== "").map((line) => {
    const [id, type, size] = line.split(" ");
    const most = type === "blob" ? OBJECT_MAX : TREE_MAX;
    if (Number(size) > most) throw tooLarge(`a ${type} of ${size} bytes, more than ${most}`);
    inflated += Number(size);
    if (inflated > max) throw tooLarge(`more than ${max} bytes`);
    return { id, type, size: Number(size) };
  });
}

/**
 * Checks that every object the tip needs is in the pack or was brought in, whatever the bundle claims to
 * need.
 */
export async function requireConnected(git: Git, tip: string, known: string[]): Promise<void> {
  const args = ["rev-list", "--objects", "--quiet", tip, ...known.map((id) => `^${id}`)];
  await git.run(args).catch(() => {
    throw refused("parts of its history are missing");
  });
}
