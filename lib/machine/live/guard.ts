/** Decides on names of files in the calls of a file server, whose names are a guest's. */
import { endsSecretPath, isSecretPart, SECRET_SEARCHED, waysToSecrets } from "../../repo/name/mod.ts";
import { maskOf } from "./mask.ts";

export const EPERM = 1, ENOENT = 2, EACCES = 13;

/** A name that a call looks up, makes, or takes away. */
export interface Named {
  /** path of its folder, through the program that calls */
  folder: string;
  /** as Latin-1 */
  name: string;
  does: "look" | "make" | "remove";
}

/**
 * A number is the error of a refusal. `gitfile`: the guest gets the file that leads to its own repository.
 * `made`: the file is made here, and is the guest's from then on.
 */
export type Verdict = "allowed" | "gitfile" | "made" | number;

export interface GuardOptions {
  /** the shared folder */
  dir: string;
  /** masked names at its top */
  top: readonly string[];
  /** the guest has a repository of its own in place of that of the folder */
  hasGitfile: boolean;
  /** secrets are not masked */
  withSecrets: boolean;
  /** files that look like secrets and are the guest's own */
  made: MadeFiles;
}

export class Guard {
  readonly #options: GuardOptions;
  readonly #dir: string;
  readonly #top: ReadonlySet<string>;

  /** @throws {Error} there is no such folder */
  constructor(options: GuardOptions) {
    const dir = identityOf(options.dir);
    if (dir === undefined) throw new Error(`${options.dir} cannot be read`);
    this.#dir = dir;
    this.#options = options;
    this.#top = new Set(options.top.map((name) => name.toLowerCase()));
  }

  decide(named: Named): Verdict {
    const { folder, name, does } = named;
    // Only paths of the file server itself begin with a slash.
    if (name.startsWith("/")) return "allowed";
    if (name.includes("/")) return EPERM;
    if (maskOf(name) === "runs") {
      if (does !== "look") return EPERM;
      return this.#options.hasGitfile && name === ".git" && this.#isTop(folder) ? "gitfile" : ENOENT;
    }
    if (this.#top.has(name.toLowerCase()) && this.#isTop(folder)) return does === "look" ? ENOENT : EPERM;
    if (does !== "look" && this.#leadsToSecret(named)) return EACCES;
    if (!this.#isSecret(named)) return "allowed";
    const path = pathOf(named);
    if (path === undefined) return EACCES;
    const identity = identityOf(path);
    if (identity === undefined) return does === "make" ? "made" : "allowed";
    return this.#options.made.has(identity) ? "allowed" : EACCES;
  }

  /** Decides on a new name for a guest's file: it stays the guest's even under a name like a secret's. */
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
   * True if a folder has a secret of the host below it, which under another name of the folder would be none.
   */
  #leadsToSecret(named: Named): boolean {
    if (this.#options.withSecrets || !isSecretPart(named.name)) return false;
    const parts = partsOf(named);
    if (parts === undefined) return true;
    return waysToSecrets(parts).flatMap((way) => findAlong(`${named.folder}/${named.name}`, way)).some(
      (path) => {
        const identity = identityOf(path);
        return identity !== undefined && !this.#options.made.has(identity);
      },
    );
  }

  #isTop(folder: string): boolean {
    return identityOf(folder) === this.#dir;
  }
}

/** Path of a name; undefined where it is not UTF-8, which no path of Deno can be. */
export function pathOf({ folder, name }: Named): string | undefined {
  const bytes = Uint8Array.from(name, (character) => character.charCodeAt(0));
  try {
    return `${folder}/${new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)}`;
  } catch {
    return undefined;
  }
}

/**
 * Parts of a name's path, in lower case; undefined where the kernel gives no
 * path: it is too long, or not UTF-8.
 */
function partsOf({ folder, name }: Named): string[] | undefined {
  try {
    const path = folder.startsWith("/proc/") ? Deno.readLinkSync(folder) : folder;
    return `${path}/${name}`.toLowerCase().split("/");
  } catch {
    return undefined;
  }
}

/** Paths below a folder whose names are these in any case. */
function findAlong(folder: string, [name, ...rest]: string[]): string[] {
  let names: string[];
  try {
    names = Array.from(Deno.readDirSync(folder), (entry) => entry.name);
  } catch {
    // A folder that cannot be listed may still be gone through.
    names = [name];
  }
  const found = names.filter((each) => each.toLowerCase() === name).map((each) => `${folder}/${each}`);
  return rest.length === 0 ? found : found.flatMap((path) => findAlong(path, rest));
}

/** First part of a regular file, as text; empty when it cannot be read. */
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
 * Files that a guest made under names like a secret's: it may read them again, also after its next start.
 * Their identities are stored in a file, one a line.
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

  /** Adds the file at a path; does nothing if absent. */
  add(path: string): void {
    const identity = identityOf(path);
    if (identity === undefined || this.#known.has(identity)) return;
    this.#known.add(identity);
    Deno.writeTextFileSync(this.#path, `${identity}\n`, { append: true, mode: 0o600 });
  }
}

/**
 * Device, number and birth of a file, of a link its own: a number is used again for another file. Only links
 * of /proc are followed, which stand for open files.
 *
 * @returns undefined for none
 */
function identityOf(path: string): string | undefined {
  try {
    const { dev, ino, birthtime } = OPEN_FILE.test(path) ? Deno.statSync(path) : Deno.lstatSync(path);
    return `${dev}:${ino}:${birthtime?.getTime() ?? ""}`;
  } catch {
    return undefined;
  }
}

const OPEN_FILE = /^\/proc\/\d+\/fd\/\d+$/;

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
