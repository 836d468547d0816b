/** Bare repositories of sbx beside a VM: the brought-in work, and briefly the returning work. */
import { join } from "node:path";
import { Git } from "./git.ts";
import type { Source } from "./source.ts";

/** A bare repository of sbx. */
export interface Store {
  dir: string;
  git: Git;
  /** folder of the person's own objects that are read too, quoted for a list of such folders; "" for none */
  alternates: string;
}

/** For folders: files are bytes, whatever their .gitattributes say. */
const BYTES_ONLY = "* -text -eol -ident -filter -diff -merge -working-tree-encoding\n";

/** Store of a source, at a path that may not exist yet. */
export async function storeOf(
  { git, isRepository }: Pick<Source, "git" | "isRepository">,
  dir: string,
): Promise<Store> {
  const objects = isRepository
    ? await git.text(["rev-parse", "--path-format=absolute", "--git-path", "objects"])
    : undefined;
  return { dir, git: Git.ofStore(dir), alternates: objects === undefined ? "" : quoted(objects) };
}

/** Makes the store of a source, unless it is there. */
export async function initStore(
  { git, isRepository }: Pick<Source, "git" | "isRepository">,
  store: Store,
): Promise<void> {
  if (await Deno.lstat(join(store.dir, "HEAD")).then(() => true, () => false)) return;
  const format = isRepository ? await git.text(["rev-parse", "--show-object-format"]) : "sha1";
  await makeStore(store, format);
  if (!isRepository) await writeInfo(store, "attributes", BYTES_ONLY);
  const shallow = isRepository
    ? await git.text(["rev-parse", "--path-format=absolute", "--git-path", "shallow"])
    : undefined;
  if (shallow) await copyIfThere(shallow, join(store.dir, "shallow"));
}

/** Makes an empty store that reads the objects of another as well. */
export async function makeBeside(base: Store, dir: string): Promise<Store> {
  const store = { dir, git: Git.ofStore(dir), alternates: quoted(join(base.dir, "objects")) };
  await makeStore(store, await base.git.text(["rev-parse", "--show-object-format"]));
  await copyIfThere(join(base.dir, "shallow"), join(dir, "shallow"));
  return store;
}

async function makeStore({ dir, git, alternates }: Store, format: string): Promise<void> {
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  await git.run(["init", "--quiet", "--bare", "--template=", `--object-format=${format}`, dir]);
  await Deno.mkdir(join(dir, "info"), { recursive: true });
  if (alternates === "") return;
  await Deno.mkdir(join(dir, "objects", "info"), { recursive: true });
  await Deno.writeTextFile(join(dir, "objects", "info", "alternates"), `${alternates}\n`);
}

async function writeInfo({ dir }: Store, name: string, text: string): Promise<void> {
  await Deno.writeTextFile(join(dir, "info", name), text);
}

async function copyIfThere(from: string, to: string): Promise<void> {
  await Deno.copyFile(from, to).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** A path in git's list of object folders, where a colon would end it. */
function quoted(path: string): string {
  return `"${path.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
