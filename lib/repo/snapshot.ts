/** The state of a folder as a commit, made without writing to the person's repository. */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { Git } from "./git.ts";
import { looksSecret } from "./name/mod.ts";
import { below, type Source } from "./source.ts";
import { initStore, type Store } from "./store.ts";
import { exactText, fromLatin1, latin1, splitNul } from "./text.ts";

/** Name of the file with patterns of files that stay on the host, as in a .gitignore. */
const IGNORE_FILE = ".sbxignore";
/** Date of sbx's commits: the same tree and parents give the same commit, on both sides. */
export const COMMIT_DATE = "2001-01-01T00:00:00Z";

/** The state of one source. */
export interface Snapshot {
  /** checked-out commit; absent before the first one, and for a folder */
  head?: string;
  /** branch that is checked out, without `refs/heads/` */
  branch?: string;
  /** commit of the files' state, with `head` as its parent; `head` itself without differences */
  work: string;
  /** files that look like secrets and were left out */
  secrets: string[];
  /** such files that are in the head commit, and so were not */
  committedSecrets: string[];
  /** other paths that were left out, with the reason */
  leftOut: string[];
  /** paths that go in, as {@linkcode latin1}; of a folder only */
  files: string[];
}

/** Takes the state of a source into a separate store. */
export async function takeSnapshot(source: Source, store: Store, withSecrets: boolean): Promise<Snapshot> {
  await initStore(source, store);
  const temporary = await Deno.makeTempDir({ prefix: "sbx-index-" });
  try {
    return await new Taker(source, store, join(temporary, "index"), withSecrets).take();
  } finally {
    await Deno.remove(temporary, { recursive: true });
  }
}

class Taker {
  readonly #git: Git;
  readonly #result: Omit<Snapshot, "work"> = { secrets: [], committedSecrets: [], leftOut: [], files: [] };

  constructor(
    readonly source: Source,
    readonly store: Store,
    readonly index: string,
    readonly withSecrets: boolean,
  ) {
    // New objects go to the store; the repository's own are read beside it.
    this.#git = source.isRepository
      ? source.git.with({
        GIT_INDEX_FILE: index,
        GIT_OBJECT_DIRECTORY: join(store.dir, "objects"),
        GIT_ALTERNATE_OBJECT_DIRECTORIES: store.alternates,
      })
      : source.git.with({ GIT_INDEX_FILE: index, GIT_DIR: store.dir, GIT_WORK_TREE: source.dir });
  }

  async take(): Promise<Snapshot> {
    const head = this.source.isRepository
      ? await this.#git.text(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).catch(() => undefined)
      : undefined;
    const branch = this.source.isRepository
      ? await this.#git.text(["symbolic-ref", "--quiet", "--short", "HEAD"]).catch(() => undefined)
      : undefined;
    if (this.source.isRepository) await this.#copyIndex();
    const committed = head === undefined ? new Set<string>() : await this.#pathsOf(head);
    await this.#updateTracked(committed);
    await this.#addUntracked();
    const work = await this.#commit(head);
    return { ...this.#result, head, branch, work };
  }

  /**
   * Copies the index: its times spare reading every file, and its entries for filtered files stay unchanged.
   * The copy keeps the index's time, so that git rereads files that may have changed in the second it was
   * written.
   */
  async #copyIndex(): Promise<void> {
    const path = await this.source.git.text(["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    try {
      const { atime, mtime } = await Deno.stat(path);
      await Deno.copyFile(path, this.index);
      await Deno.utime(this.index, atime!, mtime!);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  async #pathsOf(commit: string): Promise<Set<string>> {
    return new Set(
      splitNul(await this.#git.run(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit])),
    );
  }

  /** Takes changed and deleted files; secrets that no commit has leave the index. */
  async #updateTracked(committed: Set<string>): Promise<void> {
    const tracked = splitNul(await this.#git.run(["ls-files", "-z", "--cached"]));
    const changed = new Set(splitNul(await this.#git.run(["ls-files", "-z", "--modified", "--deleted"])));
    const removed: string[] = [];
    for (const path of new Set(tracked)) {
      if (!await this.#isSecret(path)) continue;
      if (committed.has(path)) {
        this.#result.committedSecrets.push(below(this.source, path));
        if (!this.withSecrets) changed.delete(path);
      } else if (!this.withSecrets) {
        this.#result.secrets.push(below(this.source, path));
        removed.push(path);
        changed.delete(path);
      }
    }
    await this.#updateIndex(["--add", "--remove"], [...changed]);
    await this.#updateIndex(["--force-remove"], removed);
  }

  async #addUntracked(): Promise<void> {
    const args = ["ls-files", "-z", "--others", "--exclude-standard"];
    const ignore = join(this.source.dir, IGNORE_FILE);
    if (await Deno.lstat(ignore).then((info) => info.isFile, () => false)) {
      args.push(`--exclude-from=${ignore}`);
    }
    const added: string[] = [];
    for (const path of splitNul(await this.#git.run(args))) {
      if (path.endsWith("/")) {
        this.#result.leftOut.push(`${below(this.source, path.slice(0, -1))}: a repository of its own`);
      } else if (!this.withSecrets && await this.#isSecret(path)) {
        const name = below(this.source, path);
        if (!this.#result.secrets.includes(name)) this.#result.secrets.push(name);
      } else added.push(path);
    }
    await this.#updateIndex(["--add"], added);
    if (!this.source.isRepository) this.#result.files = added;
  }

  /** Puts paths into the index by name: no patterns, no filters, no submodule contents. */
  async #updateIndex(how: string[], paths: string[]): Promise<void> {
    if (paths.length === 0) return;
    const input = fromLatin1(paths.map((path) => `${path}\0`).join(""));
    await this.#git.run(["update-index", ...how, "-z", "--stdin"], { input });
  }

  async #commit(head: string | undefined): Promise<string> {
    const tree = await this.#git.text(["write-tree"]);
    if (head !== undefined && await this.#git.text(["rev-parse", `${head}^{tree}`]) === tree) return head;
    return await commitTree(this.#git, tree, head === undefined ? [] : [head], "Uncommitted changes");
  }

  async #isSecret(path: string): Promise<boolean> {
    return await looksSecret(path, (bytes) => this.#read(path, bytes));
  }

  async #read(path: string, bytes: number): Promise<string> {
    const name = exactText(path);
    if (name === undefined) return "";
    const full = join(this.source.dir, name);
    if (!(await Deno.lstat(full).catch(() => undefined))?.isFile) return "";
    using file = await Deno.open(full);
    const buffer = new Uint8Array(bytes);
    return latin1(buffer.subarray(0, await file.read(buffer) ?? 0));
  }
}

/** Makes a commit of sbx. @returns its id */
export async function commitTree(
  git: Git,
  tree: string,
  parents: string[],
  message: string,
  env: Record<string, string> = { GIT_AUTHOR_DATE: COMMIT_DATE, GIT_COMMITTER_DATE: COMMIT_DATE },
): Promise<string> {
  const args = ["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", message];
  return await git.text(args, { env });
}

/** @throws {SbxError} `repo.empty` */
export function requireContent({ head, files }: Snapshot, { dir, isRepository }: Source): void {
  if (head !== undefined || !isRepository || files.length > 0) return;
  throw new SbxError("repo.empty", `the repository "${dir}" has no commit`, {
    hint: "commit something first",
  });
}
