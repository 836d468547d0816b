/**
 * git on the host, without anything that a repository's configuration could make it run; where it is the
 * first to read a guest's bytes, with its store alone and no network (docs/concepts/threat-model.md).
 */
import { join, resolve } from "node:path";
import { joinBytes } from "../base/bytes/mod.ts";
import { ConfinedLauncher, type ConfinedProgram, placesOf } from "../base/confine/mod.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { GIT_ALLOCATION, GIT_MEMORY, GIT_SECONDS } from "./limit.ts";
import { decoded, fromLatin1, latin1 } from "./text.ts";

/** Configuration that wins over every file: nothing is run, nothing is fetched. */
const NOTHING_RUNS: [string, string][] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.untrackedCache", "false"],
  ["core.alternateRefsCommand", "true"],
  ["core.askPass", "true"],
  ["core.sshCommand", "false"],
  ["core.pager", "cat"],
  ["core.editor", "false"],
  ["core.protectNTFS", "true"],
  ["core.protectHFS", "true"],
  ["credential.helper", ""],
  ["diff.external", ""],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["protocol.allow", "never"],
  ["submodule.recurse", "false"],
  ["commit.gpgSign", "false"],
  ["log.showSignature", "false"],
];

/** Configuration of repositories that hold a guest's bytes. */
const BOUNDED: [string, string][] = [
  ["core.bigFileThreshold", "64m"],
  ["core.packedGitWindowSize", "64m"],
  ["core.packedGitLimit", "1g"],
  ["pack.threads", "2"],
];

/** One identity for commits that sbx makes; with fixed dates, the same tree is the same commit everywhere. */
const IDENTITY = {
  GIT_AUTHOR_NAME: "sbx",
  GIT_AUTHOR_EMAIL: "sbx@localhost",
  GIT_COMMITTER_NAME: "sbx",
  GIT_COMMITTER_EMAIL: "sbx@localhost",
};

export interface GitInput {
  input?: Uint8Array | AsyncIterable<Uint8Array>;
  env?: Record<string, string>;
  /** most `bytes` of output that are read; more is an error */
  limit?: number;
}

/** A git that runs. */
interface GitProcess extends Pick<Deno.ChildProcess, "kill"> {
  stdin: WritableStream<Uint8Array>;
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  status: Promise<{ success: boolean; signal: string | null }>;
}

/** git with one place and one environment. */
export class Git {
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  /** folder of a store of sbx; its commands run in it, with limits of time and memory */
  readonly #store: string | undefined;

  private constructor(args: readonly string[], env: Readonly<Record<string, string>>, store?: string) {
    this.#args = args;
    this.#env = env;
    this.#store = store;
  }

  /**
   * git over a person's own repository or folder. Its configuration applies, since it defines ignored files
   * and line endings; programs and filters it names are not run.
   */
  static async ofPerson(dir: string): Promise<Git> {
    const own = Object.fromEntries(
      ["HOME", "XDG_CONFIG_HOME"].flatMap((name) => {
        const value = Deno.env.get(name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
    const args = ["--literal-pathspecs", "-C", dir];
    const withFilters = new Git(args, { ...environment(NOTHING_RUNS), ...own });
    const names = await withFilters.run(["config", "-z", "--name-only", "--get-regexp", "^filter\\."])
      .then(decoded, () => "");
    const filters = names.split("\0").filter((name) => name !== "").map((name): [string, string] => [
      name,
      name.toLowerCase().endsWith(".required") ? "false" : "",
    ]);
    return new Git(args, { ...environment([...NOTHING_RUNS, ...filters]), ...own });
  }

  /**
   * git over a bare repository of sbx, which may hold a guest's bytes: no
   * configuration but this file's, with limits.
   */
  static ofStore(gitDir: string, env: Record<string, string> = {}): Git {
    const closed = {
      HOME: "/nonexistent",
      GIT_DIR: gitDir,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_ATTR_NOSYSTEM: "1",
      GIT_ALLOC_LIMIT: String(GIT_ALLOCATION),
    };
    const all = { ...environment([...NOTHING_RUNS, ...BOUNDED]), ...closed, ...env };
    return new Git(["--literal-pathspecs"], all, gitDir);
  }

  /** The same git with more environment. */
  with(env: Record<string, string>): Git {
    return new Git(this.#args, { ...this.#env, ...env }, this.#store);
  }

  /**
   * Runs a git command. @returns its standard output
   *
   * @throws {SbxError} `repo.git_failed`: with git's own words; `repo.too_large`: more output than `limit`
   */
  async run(args: string[], { input, env, limit }: GitInput = {}): Promise<Uint8Array> {
    return await this.#outputOf(args, this.spawn(args, { hasInput: input !== undefined, env }), input, limit);
  }

  /**
   * As {@linkcode run}, of a store on Linux: this git writes packs of its store, reads the rest of it and the
   * objects of the stores that it borrows from, and no other file, socket or program of the user (Landlock,
   * seccomp).
   *
   * @throws {SbxError} also `repo.no_git`: it cannot be confined or started; `repo.damaged`
   */
  async runConfined(args: string[], { input, limit }: Omit<GitInput, "env"> = {}): Promise<Uint8Array> {
    const dir = this.#store;
    if (Deno.build.os !== "linux" || dir === undefined) return await this.run(args, { input, limit });
    // Errors of this host are not `repo.git_failed`, which is about the bytes that git has read.
    if (!await ifFound(Deno.stat(dir))) throw missingStore(dir);
    const packs = join(this.#env.GIT_OBJECT_DIRECTORY ?? join(dir, "objects"), "pack");
    await Deno.mkdir(packs, { recursive: true });
    using launcher = new ConfinedLauncher({
      rights: {
        run: placesOf("git", this.#env.PATH),
        read: ["/etc/ld.so.cache", "/etc/localtime", "/proc/meminfo", dir, ...await borrowedBy(dir)],
        devices: ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"],
        // Not its configuration or its attributes, which a later git, without limits, reads.
        folders: [packs],
      },
      notConfined: (reason) =>
        new SbxError("repo.no_git", `git could not be confined: ${reason}`, {
          hint: "sbx doctor shows what this host's kernel can do",
        }),
      notStarted: (reason) => new SbxError("repo.no_git", reason),
    });
    const [program, line] = this.#command(args);
    const child: ConfinedProgram = await launcher.start({
      argv: [program, ...line],
      cwd: dir,
      env: this.#env,
    });
    if (input === undefined) await child.stdin.close();
    return await this.#outputOf(args, child, input, limit);
  }

  async #outputOf(
    args: string[],
    child: GitProcess,
    input: GitInput["input"],
    limit = Infinity,
  ): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const fed = feed(child, input);
    const errors = tail(child.stderr);
    for await (const chunk of child.stdout) {
      size += chunk.length;
      if (size > limit) {
        endQuietly(child);
        throw new SbxError("repo.too_large", `git ${args[0]} wrote more than ${limit} bytes`);
      }
      chunks.push(chunk);
    }
    await fed;
    await this.#requireSuccess(args, child, errors);
    return joinBytes(chunks);
  }

  /** Runs a git command. @returns its standard output as UTF-8, without the last line feed */
  async text(args: string[], options?: GitInput): Promise<string> {
    return decoded(await this.run(args, options)).replace(/\n$/, "");
  }

  /** True if a git command succeeds. */
  async succeeds(args: string[], options?: GitInput): Promise<boolean> {
    return await this.run(args, options).then(() => true, () => false);
  }

  /** Standard output of a git command as it comes. @throws {SbxError} `repo.git_failed`, at its end */
  async *stream(args: string[], { input, env }: GitInput = {}): AsyncGenerator<Uint8Array> {
    const child = this.spawn(args, { hasInput: input !== undefined, env });
    const fed = feed(child, input);
    const errors = tail(child.stderr);
    let isComplete = false;
    try {
      yield* child.stdout;
      isComplete = true;
    } finally {
      if (!isComplete) endQuietly(child);
    }
    await fed;
    await this.#requireSuccess(args, child, errors);
  }

  /**
   * Starts a git command whose pipes the caller reads and writes.
   *
   * @throws {SbxError} `repo.no_git`; `repo.damaged`: the store's folder is missing
   */
  spawn(
    args: string[],
    { hasInput = true, env = {} }: { hasInput?: boolean; env?: Record<string, string> } = {},
  ) {
    const [program, line] = this.#command(args);
    try {
      return new Deno.Command(program, {
        args: line,
        cwd: this.#store,
        env: { ...this.#env, ...env },
        clearEnv: true,
        stdin: hasInput ? "piped" : "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
    } catch (error) {
      throw this.#spawnError(error);
    }
  }

  #spawnError(cause: unknown): SbxError {
    if (!(cause instanceof Deno.errors.NotFound)) return asSbxError(cause, "starting git");
    if (this.#store === undefined) {
      return new SbxError("repo.no_git", "git is not installed on this machine", {
        cause,
        hint: "install it: apt install git",
      });
    }
    return missingStore(this.#store, cause);
  }

  /** The program and its arguments. */
  #command(args: string[]): [program: string, line: string[]] {
    const words = [...this.#args, ...args];
    const limits = `ulimit -t ${GIT_SECONDS}; ulimit -v ${GIT_MEMORY / 1024}; exec git "$@"`;
    return this.#store === undefined ? ["git", words] : ["/bin/sh", ["-c", limits, "git", ...words]];
  }

  async #requireSuccess(args: string[], child: GitProcess, errors: Promise<string>): Promise<void> {
    const { success, signal } = await child.status;
    if (success) return;
    const text = plain(await errors).trim();
    throw new SbxError("repo.git_failed", `git ${args[0]} failed: ${text || signal || "it wrote no error"}`);
  }
}

function missingStore(dir: string, cause?: unknown): SbxError {
  return new SbxError("repo.damaged", `the folder ${dir} is missing`, {
    cause,
    hint: "sbx push DIR NAME brings the folder into the VM again",
  });
}

function environment(config: [string, string][]): Record<string, string> {
  const env: Record<string, string> = {
    PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin",
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_NO_LAZY_FETCH: "1",
    GIT_ALLOW_PROTOCOL: "none",
    GIT_CONFIG_COUNT: String(config.length),
    ...IDENTITY,
  };
  config.forEach(([key, value], at) => {
    env[`GIT_CONFIG_KEY_${at}`] = key;
    env[`GIT_CONFIG_VALUE_${at}`] = value;
  });
  return env;
}

/** Most stores that a store borrows from, one from another, as git has it. */
const BORROWED_MAX = 5;

/** Folders of objects that a store reads beside its own, and the ones in them that may be links. */
async function borrowedBy(dir: string): Promise<string[]> {
  const found: string[] = [];
  for (
    let folders = [join(dir, "objects")], depth = 0;
    folders.length > 0 && depth <= BORROWED_MAX;
    depth++
  ) {
    const lists = await Promise.all(folders.map(alternatesOf));
    folders = lists.flat().filter((folder) => !found.includes(folder));
    found.push(...folders);
  }
  return found.flatMap((folder) => [folder, join(folder, "pack"), join(folder, "info")]);
}

/** Folders that a folder of objects names as further ones. As git, passes over a list that cannot be read. */
async function alternatesOf(objects: string): Promise<string[]> {
  const text = await Deno.readTextFile(join(objects, "info", "alternates")).catch(() => "");
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) =>
    resolve(objects, unquoted(line) ?? line)
  );
}

/** Escapes of C in git's quoted paths, without octal numbers. */
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" },
  ...{ '"': '"', "\\": "\\" },
};

/** A path that git has quoted; `undefined` for any other line, which git takes as it is. */
function unquoted(line: string): string | undefined {
  const [, text] = /^"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"/.exec(line) ?? [];
  if (text === undefined) return undefined;
  // Octal numbers are bytes of UTF-8, of which several make a character.
  const plain = latin1(new TextEncoder().encode(text)).replaceAll(
    /\\([0-7]{3}|.)/g,
    (_, escape: string) => ESCAPES[escape] ?? String.fromCharCode(parseInt(escape, 8)),
  );
  return decoded(fromLatin1(plain));
}

/**
 * Writes the input of a git. One that stops reading early explains it in its error text: only a failure of
 * the input rejects.
 */
function feed(child: GitProcess, input: GitInput["input"]): Promise<void> {
  const fed = write(child, input);
  fed.catch(ignore("awaited later, or not at all where the output fails first"));
  return fed;
}

async function write(child: GitProcess, input: GitInput["input"]): Promise<void> {
  if (input === undefined) return;
  const writer = child.stdin.getWriter();
  let failure: unknown;
  try {
    for await (const chunk of input instanceof Uint8Array ? [input] : input) {
      try {
        await writer.write(chunk);
      } catch {
        return;
      }
    }
  } catch (error) {
    failure = error;
    endQuietly(child);
  } finally {
    await writer.close().catch(ignore("git says why it ended early"));
  }
  if (failure !== undefined) throw failure;
}

/** `bytes` of an error text that are kept. */
const ERROR_TEXT_MAX = 4096;

async function tail(from: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of from) {
    text = (text + decoder.decode(chunk, { stream: true })).slice(-ERROR_TEXT_MAX);
  }
  return text;
}

function endQuietly(child: GitProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // ended already
  }
}
