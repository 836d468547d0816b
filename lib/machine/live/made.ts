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
 * Device, number and birth of a file, of a link its own: a number is used again for another file. Only links of /proc are
 * followed, which stand for open files.
 *
 * @returns undefined for none
 */
export function identityOf(path: string): string | undefined {
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
