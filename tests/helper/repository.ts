/**
 * Repositories for tests, and a guest that is a folder of this machine: its scripts run
 * here, with git's own defaults.
 */
import { dirname, join } from "node:path";
import { silent } from "../../lib/base/progress/mod.ts";
import { bringIn, type BringOptions, type BroughtIn, type Guest, Work } from "../../lib/repo/mod.ts";
import { writeAll } from "../../lib/base/wire/mod.ts";
import { runChild } from "./child.ts";

/** Time limit of one command in `ms`. */
const LIMIT_MS = 120_000;

const ENV = {
  PATH: Deno.env.get("PATH")!,
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.com",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.com",
};

/** Runs a program, which must succeed. @returns standard output */
export async function run(cwd: string, program: string, args: string[], limitMs = LIMIT_MS): Promise<string> {
  const { success, stdout, stderr } = await runChild(
    program,
    { args, cwd, env: ENV, clearEnv: true },
    limitMs,
  );
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

/** Runs git in a folder. @returns standard output, without the last line feed */
export async function git(cwd: string, ...args: string[]): Promise<string> {
  return (await run(cwd, "git", args)).replace(/\n$/, "");
}

/** Runs a shell line in a folder. */
export function sh(cwd: string, line: string, limitMs = LIMIT_MS): Promise<string> {
  return run(cwd, "sh", ["-euc", line], limitMs);
}

/** Folders of one test: the person's, the guest's, and what is kept beside the VM. */
export class World implements AsyncDisposable {
  private constructor(readonly dir: string) {}

  static async make(): Promise<World> {
    const world = new World(await Deno.makeTempDir({ prefix: "sbx-repo-" }));
    for (const name of ["person", "guest", "workspace"]) await Deno.mkdir(join(world.dir, name));
    return world;
  }

  /** A world with a repository of one commit that was brought in. */
  static async ofRepository(script = "echo one >a.txt"): Promise<World> {
    const world = await World.make();
    await sh(world.person, `git init -q -b main; ${script}; git add -A; git commit -q -m first`);
    await world.bring();
    return world;
  }

  /** folder of the person */
  get person(): string {
    return join(this.dir, "person");
  }

  /** the same in the guest */
  get inside(): string {
    return join(this.dir, "guest", "project");
  }

  get room(): string {
    return join(this.dir, "room");
  }

  get guest(): Guest {
    return new LocalGuest(join(this.dir, "workspace"));
  }

  bring(options: Partial<BringOptions> = {}): Promise<BroughtIn> {
    return bringIn(this.guest, {
      dir: this.person,
      room: this.room,
      place: this.inside,
      progress: silent,
      ...options,
    });
  }

  collect(guest = this.guest): Promise<Work> {
    return Work.collect(guest, this.room);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(dirname(this.dir), "rm", ["-rf", this.dir]);
  }
}

/** A guest whose programs run on this machine. */
export class LocalGuest implements Guest {
  readonly name = "demo";

  constructor(readonly workspace: string) {}

  async run(argv: string[]) {
    const { code, stdout, stderr } = await runChild(
      argv[0],
      { args: argv.slice(1), env: ENV, clearEnv: true, cwd: this.workspace },
      LIMIT_MS,
    );
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  async upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const full = join(this.workspace, path);
    try {
      using file = await Deno.open(full, { write: true, createNew: true });
      for await (const chunk of bytes) await writeAll(file, chunk);
    } catch (error) {
      await Deno.remove(full);
      throw error;
    }
  }

  async download(path: string) {
    return { body: (await Deno.open(join(this.workspace, path))).readable as AsyncIterable<Uint8Array> };
  }
}

/** What is in a folder: paths with type, mode and content, without `.git`. */
export async function listing(dir: string): Promise<string> {
  return await sh(
    dir,
    `find . -name .git -prune -o \\( -type f -printf '%p %m ' -exec sha1sum {} \\; -o -type l -printf '%p -> %l\\n' \\) | sed 's/ \\.\\/.*//' | sort`,
  );
}
