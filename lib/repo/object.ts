/** Objects of a store, one after the other, through one `git cat-file`. */
import { joinBytes } from "../base/bytes/mod.ts";
import { ignore } from "../base/error/mod.ts";
import type { Git } from "./git.ts";
import { refused, tooLarge } from "./refusal.ts";
import { latin1 } from "./text.ts";

/** One object. */
export interface GitObject {
  type: string;
  bytes: Uint8Array;
}

/** One entry of a tree. */
export interface TreeEntry {
  /** `100644`, `40000`, … */
  mode: string;
  /** as {@linkcode latin1} */
  name: string;
  id: string;
}

const encoder = new TextEncoder();

/** A running `git cat-file --batch`. */
export class ObjectReader implements Disposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamDefaultReader<Uint8Array>;
  #pending: Uint8Array = new Uint8Array();

  constructor(git: Git) {
    this.#child = git.spawn(["cat-file", "--batch"]);
    this.#child.stderr.cancel();
    this.#input = this.#child.stdin.getWriter();
    this.#output = this.#child.stdout.getReader();
  }

  /**
   * Reads an object.
   *
   * @param max `bytes`; one that has more is refused before it is read
   * @throws {SbxError} `repo.refused`: it is not there; `repo.too_large`
   */
  async read(id: string, max: number): Promise<GitObject> {
    await this.#input.write(encoder.encode(`${id}\n`));
    return await this.next(max);
  }

  /** Asks for many objects; {@linkcode next} gives them in this order. */
  async ask(ids: string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += 1000) {
      await this.#input.write(encoder.encode(ids.slice(at, at + 1000).map((id) => `${id}\n`).join("")));
    }
  }

  async next(max: number): Promise<GitObject> {
    const [id, type, size] = (await this.#line()).split(" ");
    if (size === undefined) throw refused(`the object ${id.slice(0, 64)} is missing`);
    if (Number(size) > max) throw tooLarge(`the ${type} ${id} has ${size} bytes, more than ${max}`);
    const bytes = await this.#bytes(Number(size) + 1);
    return { type, bytes: bytes.subarray(0, -1) };
  }

  [Symbol.dispose](): void {
    this.#input.close().catch(ignore("git has ended"));
    this.#output.cancel().catch(ignore("git has ended"));
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // ended already
    }
  }

  async #line(): Promise<string> {
    let text = "";
    for (let end = -1; end < 0;) {
      if (this.#pending.length === 0) await this.#fill();
      end = this.#pending.indexOf(10);
      text += latin1(end < 0 ? this.#pending : this.#pending.subarray(0, end));
      this.#pending = end < 0 ? new Uint8Array() : this.#pending.subarray(end + 1);
    }
    return text;
  }

  async #bytes(count: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for (let left = count; left > 0;) {
      if (this.#pending.length === 0) await this.#fill();
      const part = this.#pending.subarray(0, left);
      parts.push(part);
      left -= part.length;
      this.#pending = this.#pending.subarray(part.length);
    }
    return joinBytes(parts);
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#output.read();
    if (done) throw refused("git cannot read an object of it");
    this.#pending = value;
  }
}

/** Entries of a tree. @param idBytes length of an id */
export function parseTree(bytes: Uint8Array, idBytes: number): TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(32, at);
    const end = bytes.indexOf(0, space);
    if (space < 0 || end < 0 || end + 1 + idBytes > bytes.length) {
      throw refused("a tree that is cut off");
    }
    entries.push({
      mode: latin1(bytes.subarray(at, space)),
      name: latin1(bytes.subarray(space + 1, end)),
      id: bytes.subarray(end + 1, end + 1 + idBytes).toHex(),
    });
    at = end + 1 + idBytes;
  }
  return entries;
}
