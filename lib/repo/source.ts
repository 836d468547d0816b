/** Sources that a person brings in: a git repository with its submodules, or a plain folder. */
import { resolve } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { Git } from "./git.ts";
import { exactText, shown, splitNul } from "./text.ts";

/** A repository, or a folder without one. */
export interface Source {
  /** absolute path, its links resolved */
  dir: string;
  /** path below the outermost one; "" for that itself */
  path: string;
  isRepository: boolean;
  git: Git;
}

/** Most levels of submodules in submodules. */
const SUBMODULE_DEPTH = 8;

/**
 * A folder with the submodules that are checked out below it, the outermost first.
 *
 * @throws {SbxError} `file.not_found`, `file.invalid`: not a folder; `repo.below`:
 * a folder of a larger repository
 */
export async function sourcesOf(dir: string): Promise<Source[]> {
  const info = await Deno.stat(dir).catch((cause) => {
    throw new SbxError("file.not_found", `"${dir}" cannot be read`, { cause, hint: "check the path" });
  });
  if (!info.isDirectory) throw new SbxError("file.invalid", `"${dir}" is not a folder`);
  const path = await Deno.realPath(resolve(dir));
  if (path === "/") {
    throw new SbxError("file.invalid", `"${dir}" is all of this host`, { hint: "bring in a folder of it" });
  }
  return await collect(path, "", 0);
}

async function collect(dir: string, path: string, level: number): Promise<Source[]> {
  const git = await Git.ofPerson(dir);
  const top = await git.text(["rev-parse", "--show-toplevel"]).catch(() => undefined);
  if (top === undefined) {
    if (await Deno.lstat(`${dir}/.git`).then(() => true, () => false)) {
      // Says why: another owner, a broken repository.
      await git.text(["rev-parse", "--show-toplevel"]);
    }
    return [{ dir, path, isRepository: false, git }];
  }
  if (top !== dir) {
    throw new SbxError("repo.below", `"${dir}" is a folder of the repository "${top}"`, {
      hint: `bring in the whole of it: "${top}"`,
    });
  }
  const below = level < SUBMODULE_DEPTH ? await submodules(git, dir) : [];
  const inner = await Promise.all(
    below.map((name) => collect(`${dir}/${name}`, path === "" ? name : `${path}/${name}`, level + 1)),
  );
  return [{ dir, path, isRepository: true, git }, ...inner.flat()];
}

/** Paths of the submodules that are checked out. */
async function submodules(git: Git, dir: string): Promise<string[]> {
  const entries = splitNul(await git.run(["ls-files", "-z", "--stage"]));
  const links = entries.filter((entry) => entry.startsWith("160000 "))
    .map((entry) => exactText(entry.slice(entry.indexOf("\t") + 1)))
    .filter((name) => name !== undefined);
  const there = await Promise.all(
    links.map((name) => Deno.lstat(`${dir}/${name}/.git`).then(() => true, () => false)),
  );
  return links.filter((_, at) => there[at]);
}

/** Name of a file that a source leaves out, for a person. */
export function below(source: Pick<Source, "path">, path: string): string {
  return source.path === "" ? shown(path) : `${shown(source.path)}/${shown(path)}`;
}

/**
 * git over a person's folder.
 * @returns undefined for a folder without a repository
 * @throws {SbxError} one that git refuses
 */
export async function personGit(dir: string): Promise<Git | undefined> {
  const git = await Git.ofPerson(dir);
  const isThere = await git.text(["rev-parse", "--show-toplevel"]).then(() => true, () => false);
  if (isThere) return git;
  // Says why: another owner, a broken repository.
  if (await Deno.lstat(`${dir}/.git`).then(() => true, () => false)) {
    await git.text(["rev-parse", "--show-toplevel"]);
  }
  return undefined;
}
