/**
 * Decides which names of a shared folder a guest may use: the file server's calls carry names that the guest
 * chose, and wait here for a verdict (docs/guides/live.md).
 */
import { endsSecretPath, isSecretPart, SECRET_SEARCHED, waysToSecrets } from "../../repo/name/mod.ts";
import { maskOf } from "./mask.ts";

export const EPERM = 1, ENOENT = 2, EACCES = 13;

/** A name in a call, and its use there. */
export interface Named {
  /** path of its folder, as the calling process has it open: `/proc/PID/fd/N` or `/proc/PID/cwd` */
  folder: string;
  /** bytes of the name, as Latin-1 */
  name: string;
  /** `look`: any use that neither makes nor removes the name */
  does: "look" | "make" | "remove";
}

/**
 * - a number: the call fails with this errno;
 * - `gitfile`: the guest gets a file that leads to its own repository;
 * - `made`: the host makes the file in place of the caller, and it belongs to the guest from then on.
 */
export type Verdict = "allowed" | "gitfile" | "made" | number;

export interface GuardOptions {
  /** the shared folder */
  dir: string;
  /** names masked only at its top */
  top: readonly string[];
  /** the guest uses its own repository instead of the folder's */
  hasGitfile: boolean;
  /** secrets are not masked */
  withSecrets: boolean;
  /** the guest's own files among the ones that look like secrets */
  made: MadeFiles;
}

/** The rules of one shared folder. */
export class Guard {
  readonly #options: GuardOptions;
  readonly #dir: string;
  readonly #top: ReadonlySet<string>;

  /** @throws {Error} the folder does not exist or cannot be read */
  constructor(options: GuardOptions) {
    const dir = identityOf(options.dir);
    if (dir === undefined) throw new Error(`${options.dir} cannot be read`);
    this.#dir = dir;
    this.#options = options;
    this.#top = new Set(options.top.map((name) => name.toLowerCase()));
  }

  decide(named: Named): Verdict {
    const { folder, name, does } = named;
    // The file server asks for a guest's names one at a time; only its own files have absolute paths.
    if (name.startsWith("/")) return "allowed";
    if (name.includes("/")) return EPERM;
    if (maskOf(name) === "runs") {
      if (does !== "look") return EPERM;
      return this.#options.hasGitfile && name === ".git" && this.#isTop(folder) ? "gitfile" : ENOENT;
    }
    if (this.#top.has(name.toLowerCase()) && this.#isTop(folder)) return does === "look" ? ENOENT : EPERM;
    if (does !== "look" && this.#leadsToSecret(named)) return EACCES;
    if (!this.#isSecret(named)) return "allowed";
    return this.#decideSecret(named);
  }

  /** Secrets of the host stay out of reach; the guest may make files under such names, and use its own. */
  #decideSecret(named: Named): Verdict {
    const path = pathOf(named);
    if (path === undefined) return EACCES;
    const identity = identityOf(path);
    if (identity === undefined) return named.does === "make" ? "made" : "allowed";
    return this.#options.made.has(identity) ? "allowed" : EACCES;
  }

  /**
   * Decides on a new name for a file of the guest, which stays the guest's even under the name of a secret.
   *
   * @param from path of the file, which was allowed
   */
  decideMove(from: string, to: Named): Verdict {
    const verdict = this.decide(to);
    if (typeof verdict === "number" || !this.#isSecret(to)) return verdict;
    this.#options.made.add(from);
    return "allowed";
  }

  #isSecret(named: Named): boolean {
    if (this.#options.withSecrets) return false;
    const mask = maskOf(named.name);
    if (mask instanceof RegExp ? mask.test(beginning(pathOf(named) ?? "")) : mask === "secret") return true;
    if (!isSecretPart(named.name)) return false;
    const parts = partsOf(named);
    return parts === undefined || endsSecretPath(parts);
  }

  /**
   * True if a folder has a secret of the host below it. Renamed, the folder would expose it: `.config/gh` is
   * masked, and `config/gh` would not be.
   */
  #leadsToSecret(named: Named): boolean {
    if (this.#options.withSecrets || !isSecretPart(named.name)) return false;
    const parts = partsOf(named);
    if (parts === undefined) return true;
    const paths = waysToSecrets(parts).flatMap((way) => findAlong(`${named.folder}/${named.name}`, way));
    return paths.some((path) => {
      const identity = identityOf(path);
      return identity !== undefined && !this.#options.made.has(identity);
    });
  }

  #isTop(folder: string): boolean {
    return identityOf(folder) === this.#dir;
  }
}

/** Path of a name; undefined if it is not UTF-8, which Deno's paths have to be. */
export function pathOf({ folder, name }: Named): string | undefined {
  const bytes = Uint8Array.from(name, (character) => character.charCodeAt(0));
  try {
    return `${folder}/${new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)}`;
  } catch {
    return undefined;
  }
}

/** Parts of a name's path, in lower case; undefined if the kernel gives none: too long, or not UTF-8. */
function partsOf({ folder, name }: Named): string[] | undefined {
  try {
    const path = folder.startsWith("/proc/") ? Deno.readLinkSync(folder) : folder;
    return `${path}/${name}`.toLowerCase().split("/");
  } catch {
    return undefined;
  }
}

/** Paths below a folder that match these names, ignoring case. */
function findAlong(folder: string, [name, ...rest]: string[]): string[] {
  let names: string[];
  try {
    names = Array.from(Deno.readDirSync(folder), (entry) => entry.name);
  } catch {
    // Without permission to list a folder, files in it can still be opened by name.
    names = [name];
  }
  const found = names.filter((each) => each.toLowerCase() === name).map((each) => `${folder}/${each}`);
  return rest.length === 0 ? found : found.flatMap((path) => findAlong(path, rest));
}

/** Start of a regular file, as text; empty if it cannot be read. */
function beginning(path: string): string {
  try {
    if (!Deno.lstatSync(path).isFile) return "";
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(SECRET_SEARCHED);
    return new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
  } catch {
    return "";
  }
}

/**
 * Files that a guest made under names of secrets. It may read them again, also after its next start, so their
 * identities are stored in a file, one a line.
 */
export class MadeFiles {
  readonly #path: string;
  readonly #known: Set<string>;

  constructor(path: string) {
    this.#path = path;
    this.#known = new Set(textOf(path).split("\n"));
  }

  has(identity: string): boolean {
    return this.#known.has(identity);
  }

  /** Adds the file at a path, if it exists. */
  add(path: string): void {
    const identity = identityOf(path);
    if (identity === undefined || this.#known.has(identity)) return;
    this.#known.add(identity);
    Deno.writeTextFileSync(this.#path, `${identity}\n`, { append: true, mode: 0o600 });
  }
}

/** Links of /proc that stand for open files, and are therefore followed. */
const OPEN_FILE = /^\/proc\/\d+\/fd\/\d+$/;

/**
 * Identity of a file by device, inode and time of birth: the file system reuses inodes. Links are identified
 * themselves.
 *
 * @returns undefined if the file does not exist or cannot be read
 */
function identityOf(path: string): string | undefined {
  try {
    const { dev, ino, birthtime } = OPEN_FILE.test(path) ? Deno.statSync(path) : Deno.lstatSync(path);
    return `${dev}:${ino}:${birthtime?.getTime() ?? ""}`;
  } catch {
    return undefined;
  }
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
