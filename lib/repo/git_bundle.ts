/** git's bundles, refs and a pack in one stream: into a guest, and back with its work. */
import type { Git } from "./git.ts";
import { BUNDLE_MAX, HEAD_MAX, OBJECTS_MAX } from "./limit.ts";
import { refused, tooLarge } from "./refusal.ts";
import { fromLatin1, latin1 } from "./text.ts";

/** The ref that a guest's bundle must have, alone. */
const OUT_REF = "refs/sbx/out";

/** `bytes` of a pack's header: `PACK`, its version, its number of objects. */
const PACK_HEADER = 12;

/** The pack of a guest's bundle, and the commit that its one ref names. */
interface GuestPack {
  tip: string;
  pack: AsyncIterable<Uint8Array>;
}

/** Bundle of all refs of a store, without objects that `known` has. */
export function writeBundle(git: Git, known: string[]): AsyncGenerator<Uint8Array> {
  return git.stream(["bundle", "create", "--quiet", "-", "--all", ...known.map((id) => `^${id}`)]);
}

/**
 * Reads the head of a guest's bundle. Prerequisites are not believed: whether
 * everything is there is checked later.
 *
 * @param format object format of the repository, `sha1` or `sha256`
 * @throws {SbxError} `repo.refused`: another format, another ref, a filter; `repo.too_large`
 */
export async function readBundle(bytes: AsyncIterable<Uint8Array>, format: string): Promise<GuestPack> {
  const reader = new HeadReader(limited(bytes));
  const signature = await reader.line();
  if (signature !== "# v2 git bundle" && signature !== "# v3 git bundle") {
    throw refused("not a bundle of git");
  }
  const oid = format === "sha256" ? /^[0-9a-f]{64}$/ : /^[0-9a-f]{40}$/;
  let found = signature === "# v2 git bundle" ? "sha1" : undefined;
  let tip: string | undefined;
  for (let line = await reader.line(); line !== ""; line = await reader.line()) {
    if (line.startsWith("@")) {
      if (line !== `@object-format=${format}`) throw refused(`the bundle has "${line.slice(0, 80)}"`);
      found = format;
    } else if (!line.startsWith("-")) {
      const [id, name] = [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)];
      if (!oid.test(id) || name !== OUT_REF || tip !== undefined) {
        throw refused("the bundle has other refs than its work");
      }
      tip = id;
    }
  }
  if ((found ?? "sha1") !== format) throw refused(`the bundle is not of object format ${format}`);
  if (tip === undefined) throw refused("the bundle has no ref");
  const header = await reader.bytes(PACK_HEADER);
  const view = new DataView(header.buffer, header.byteOffset);
  if (latin1(header.subarray(0, 4)) !== "PACK" || view.getUint32(4) !== 2) {
    throw refused("the bundle has no pack");
  }
  if (view.getUint32(8) > OBJECTS_MAX) {
    throw tooLarge(`${view.getUint32(8)} objects, more than ${OBJECTS_MAX}`);
  }
  return { tip, pack: reader.rest(header) };
}

async function* limited(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of bytes) {
    size += chunk.length;
    if (size > BUNDLE_MAX) throw tooLarge(`a bundle of more than ${BUNDLE_MAX} bytes`);
    yield chunk;
  }
}

class HeadReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #pending: Uint8Array = new Uint8Array();
  #read = 0;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#chunks = bytes[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    let text = "";
    for (;;) {
      const end = this.#pending.indexOf(10);
      const part = end < 0 ? this.#pending : this.#pending.subarray(0, end);
      text += latin1(part);
      this.#read += part.length + 1;
      if (this.#read > HEAD_MAX) throw tooLarge(`a bundle's head of more than ${HEAD_MAX} bytes`);
      this.#pending = end < 0 ? new Uint8Array() : this.#pending.subarray(end + 1);
      if (end >= 0) return text;
      await this.#fill();
    }
  }

  async bytes(count: number): Promise<Uint8Array> {
    let text = "";
    while (text.length < count) {
      if (this.#pending.length === 0) await this.#fill();
      const part = this.#pending.subarray(0, count - text.length);
      text += latin1(part);
      this.#pending = this.#pending.subarray(part.length);
    }
    return fromLatin1(text);
  }

  async *rest(first: Uint8Array): AsyncGenerator<Uint8Array> {
    yield first;
    if (this.#pending.length > 0) yield this.#pending;
    for (let next = await this.#chunks.next(); !next.done; next = await this.#chunks.next()) yield next.value;
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    if (done) throw refused("the bundle ends in its head");
    this.#pending = value;
  }
}
