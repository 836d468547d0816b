/** A guest's work in a store of its own, checked before anything else sees it. */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { readBundle, refused, tooLarge } from "./git_bundle.ts";
import { splitNul } from "./text.ts";
import { checkModules } from "./modules_check.ts";
import { BUNDLE_MAX, COMMITS_MAX, INFLATED_MAX, OBJECT_MAX, TREE_MAX } from "./limit.ts";
import { ObjectReader } from "./object.ts";
import { makeBeside, type Store } from "./store.ts";
import { linksOf, TreeCheck } from "./tree_check.ts";

/** Checked work of a guest. */
export interface Incoming {
  /** has the new objects, and reads those that were brought in */
  store: Store;
  /** commit of the state of the guest's files */
  tip: string;
}

/**
 * Takes a guest's bundle into a new store and checks everything that is new in it.
 *
 * @param base store of what was brought in
 * @param known commits that were brought in
 * @throws {SbxError} `repo.refused`, `repo.too_large`; the store is then to be removed
 */
export async function receive(
  bytes: AsyncIterable<Uint8Array>,
  base: Store,
  dir: string,
  known: string[],
): Promise<Incoming> {
  const store = await makeBeside(base, dir);
  const format = await base.git.text(["rev-parse", "--show-object-format"]);
  const { tip, pack } = await readBundle(bytes, format);
  await indexPack(store, pack);
  const objects = await newObjects(store);
  using reader = new ObjectReader(store.git);
  const linkLines = await Promise.all(
    known.map(async (commit) => splitNul(await base.git.run(["ls-tree", "-r", "-z", "--full-tree", commit]))),
  );
  const check = new TreeCheck(reader, format === "sha256" ? 32 : 20, linksOf(linkLines.flat()));
  await check.readNew(objects.filter(({ type }) => type === "tree").map(({ id }) => id));
  await requireConnected(store, tip, known);
  for (const { tree } of await newCommits(store, tip, known)) await check.check(tree);
  await checkModules(store, tip, known, reader);
  return { store, tip };
}

/** Writes the pack, with git's own strict checks of every object in it. */
async function indexPack(store: Store, pack: AsyncIterable<Uint8Array>): Promise<void> {
  const args = ["index-pack", "--stdin", "--fix-thin", "--strict", `--max-input-size=${BUNDLE_MAX}`];
  await store.git.run(args, { input: pack }).catch((error) => {
    if (!(error instanceof SbxError) || error.code !== "repo.git_failed") throw error;
    throw refused(error.message);
  });
}

/** The objects of the pack, of acceptable sizes. */
async function newObjects(store: Store): Promise<{ id: string; type: string }[]> {
  const folder = join(store.dir, "objects", "pack");
  const ids: string[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    if (!name.endsWith(".idx")) continue;
    const listing = await store.git.text(["show-index"], { input: await Deno.readFile(join(folder, name)) });
    for (const line of listing.split("\n")) if (line !== "") ids.push(line.split(" ")[1]);
  }
  const input = new TextEncoder().encode(ids.map((id) => `${id}\n`).join(""));
  const listing = ids.length === 0
    ? ""
    : await store.git.text(["cat-file", "--batch-check", "--buffer"], { input });
  let inflated = 0;
  return listing.split("\n").filter((line) => line !== "").map((line) => {
    const [id, type, size] = line.split(" ");
    const max = type === "blob" ? OBJECT_MAX : TREE_MAX;
    if (Number(size) > max) throw tooLarge(`a ${type} of ${size} bytes, more than ${max}`);
    inflated += Number(size);
    if (inflated > INFLATED_MAX) throw tooLarge(`more than ${INFLATED_MAX} bytes`);
    return { id, type };
  });
}

/** Everything that the tip needs is in the pack or was brought in, whatever the bundle said it needs. */
async function requireConnected(store: Store, tip: string, known: string[]): Promise<void> {
  const args = ["rev-list", "--objects", "--quiet", tip, ...known.map((id) => `^${id}`)];
  await store.git.run(args).catch(() => {
    throw refused("parts of its history are missing");
  });
}

async function newCommits(store: Store, tip: string, known: string[]): Promise<{ tree: string }[]> {
  if (!await store.git.succeeds(["cat-file", "-e", `${tip}^{commit}`])) throw refused("its ref is no commit");
  const args = ["log", "--format=%T", tip, ...known.map((id) => `^${id}`)];
  const lines = (await store.git.text(args)).split("\n").filter((line) => line !== "");
  if (lines.length > COMMITS_MAX) throw tooLarge(`more than ${COMMITS_MAX} commits`);
  return [...new Set(lines)].map((tree) => ({ tree }));
}
