/** The folder that an agent works on, on both sides: the person's path and the VM's. */
import { fileURLToPath, pathToFileURL } from "node:url";

/** Longest path in a message, in characters. */
const PATH_MAX = 4096;

/** One folder of the person and the same folder in the VM. */
export interface Folder {
  /** absolute paths of the host, the one with its links resolved first */
  host: readonly string[];
  /** absolute path in the VM */
  guest: string;
}

/** Translates paths. A path outside of the folder has no translation. */
export class Place {
  readonly #host: readonly string[];
  readonly #guest: string;

  constructor({ host, guest }: Folder) {
    this.#host = host.map(trimmed);
    this.#guest = trimmed(guest);
  }

  /** The folder on the host, its links resolved. */
  get dir(): string {
    return this.#host[0];
  }

  /** Path in the VM of a path that the editor names. @returns undefined: outside of the folder */
  toGuest(path: string): string | undefined {
    for (const root of this.#host) {
      const rest = below(root, path);
      if (rest !== undefined) return this.#guest + rest;
    }
    return undefined;
  }

  /**
   * Path on the host of a path that the agent names; links in it are not looked at.
   * @returns undefined: outside of the folder
   */
  toHost(path: string): string | undefined {
    const rest = below(this.#guest, path);
    return rest === undefined ? undefined : this.dir + rest;
  }

  /** `file:` address in the VM of the editor's. @returns undefined: outside of the folder, or no file */
  uriToGuest(uri: string): string | undefined {
    return translated(uri, (path) => this.toGuest(path));
  }

  /** `file:` address on the host of the agent's. @returns undefined: outside of the folder, or no file */
  uriToHost(uri: string): string | undefined {
    return translated(uri, (path) => this.toHost(path));
  }
}

function trimmed(path: string): string {
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

/**
 * The rest of a path below a folder: empty, or with `/` at its start. A path
 * with `.` or `..` is below nothing.
 */
function below(root: string, path: string): string | undefined {
  if (path.length > PATH_MAX || !path.startsWith("/") || path.includes("\0")) return undefined;
  const parts = path.split("/").slice(1);
  if (parts.some((part) => part === "." || part === "..")) return undefined;
  const plain = "/" + parts.filter((part) => part !== "").join("/");
  if (plain === root) return "";
  const prefix = root === "/" ? "/" : `${root}/`;
  return plain.startsWith(prefix) ? plain.slice(prefix.length - 1) : undefined;
}

function translated(uri: string, translate: (path: string) => string | undefined): string | undefined {
  // A URL's parser would remove the dots that below() refuses.
  if (uri.length > PATH_MAX || /(^|\/)(\.|%2e){1,2}(\/|$|[?#])/i.test(uri)) return undefined;
  const url = URL.parse(uri);
  if (url?.protocol !== "file:" || url.host !== "") return undefined;
  try {
    const path = translate(fileURLToPath(url));
    // The part after # is a line, as editors write it.
    return path === undefined
      ? undefined
      : pathToFileURL(path).href + (/^#[\w:-]{1,64}$/.exec(url.hash)?.[0] ?? "");
  } catch {
    // %2F or another sequence that no path has.
    return undefined;
  }
}
