/** Header compression of HTTP/2 (RFC 7541). The encoder uses no dynamic table, and so has no state. */
import { MessageFault } from "../fault.ts";
import { HEAD_MAX } from "../limit.ts";
import type { Header } from "../message/header.ts";
import { decodeLatin1, putLatin1 } from "../message/bytes.ts";

/** Size of the peer's dynamic table (RFC 9113 §6.5.2, the default). */
const TABLE_MAX = 4096;
/** Size of an entry beyond its text (RFC 7541 §4.1). */
const ENTRY_COST = 32;
const NEVER_INDEXED = 0x10;

/** Static header table (RFC 7541 Appendix A), from index 1. */
// deno-fmt-ignore
const STATIC: readonly Header[] = [
  [":authority", ""], [":method", "GET"], [":method", "POST"], [":path", "/"], [":path", "/index.html"],
  [":scheme", "http"], [":scheme", "https"], [":status", "200"], [":status", "204"], [":status", "206"],
  [":status", "304"], [":status", "400"], [":status", "404"], [":status", "500"], ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"], ["accept-language", ""], ["accept-ranges", ""], ["accept", ""],
  ["access-control-allow-origin", ""], ["age", ""], ["allow", ""], ["authorization", ""], ["cache-control", ""],
  ["content-disposition", ""], ["content-encoding", ""], ["content-language", ""], ["content-length", ""],
  ["content-location", ""], ["content-range", ""], ["content-type", ""], ["cookie", ""], ["date", ""], ["etag", ""],
  ["expect", ""], ["expires", ""], ["from", ""], ["host", ""], ["if-match", ""], ["if-modified-since", ""],
  ["if-none-match", ""], ["if-range", ""], ["if-unmodified-since", ""], ["last-modified", ""], ["link", ""],
  ["location", ""], ["max-forwards", ""], ["proxy-authenticate", ""], ["proxy-authorization", ""], ["range", ""],
  ["referer", ""], ["refresh", ""], ["retry-after", ""], ["server", ""], ["set-cookie", ""],
  ["strict-transport-security", ""], ["transfer-encoding", ""], ["user-agent", ""], ["vary", ""], ["via", ""],
  ["www-authenticate", ""],
];

const staticNames = new Map<string, number>();
const staticFields = new Map<string, number>();
for (const [at, [name, value]] of STATIC.entries()) {
  if (!staticNames.has(name)) staticNames.set(name, at + 1);
  if (value !== "") staticFields.set(`${name}\n${value}`, at + 1);
}

/** Encodes a header block: no Huffman code, and no field that an intermediary may index. */
export function encodeHeaders(headers: readonly Header[]): Uint8Array {
  let size = 0;
  for (const [name, value] of headers) size += name.length + value.length + 24;
  const block = new Uint8Array(size);
  let at = 0;
  for (const [name, value] of headers) {
    const field = staticFields.get(`${name}\n${value}`);
    if (field !== undefined) {
      at = putInteger(block, at, 0x80, 7, field);
      continue;
    }
    const nameIndex = staticNames.get(name);
    at = putInteger(block, at, NEVER_INDEXED, 4, nameIndex ?? 0);
    if (nameIndex === undefined) at = putText(block, at, name);
    at = putText(block, at, value);
  }
  return block.subarray(0, at);
}

function putInteger(block: Uint8Array, at: number, flags: number, bits: number, value: number): number {
  const most = 2 ** bits - 1;
  if (value < most) {
    block[at] = flags | value;
    return at + 1;
  }
  block[at++] = flags | most;
  for (value -= most; value >= 128; value = Math.floor(value / 128)) block[at++] = value % 128 | 128;
  block[at] = value;
  return at + 1;
}

function putText(block: Uint8Array, at: number, text: string): number {
  return putLatin1(text, block, putInteger(block, at, 0, 7, text.length));
}

/** Decodes the header blocks of one connection, in their order. */
export class HeaderDecoder {
  readonly #table: Header[] = [];
  #size = 0;
  #max = TABLE_MAX;

  /** @throws {MessageFault} the connection cannot be used further: the dynamic tables differ */
  decode(block: Uint8Array): Header[] {
    const headers: Header[] = [];
    const reader = new BlockReader(block);
    let size = 0;
    while (reader.remaining > 0) {
      const byte = reader.peek();
      if ((byte & 0xe0) === 0x20) {
        if (headers.length > 0) throw new MessageFault("a late change of the header table size");
        this.#resize(reader.integer(5));
        continue;
      }
      const header = this.#field(reader, byte);
      size += header[0].length + header[1].length + ENTRY_COST;
      // A few indexed bytes can expand to many.
      if (size > HEAD_MAX * 2) throw new MessageFault("the head is too long");
      headers.push(header);
    }
    return headers;
  }

  #field(reader: BlockReader, byte: number): Header {
    if (byte & 0x80) return this.#entry(reader.integer(7));
    const isIndexed = (byte & 0x40) !== 0;
    const index = reader.integer(isIndexed ? 6 : 4);
    const name = index === 0 ? reader.text() : this.#entry(index)[0];
    const header: Header = [name, reader.text()];
    if (isIndexed) this.#add(header);
    return header;
  }

  #entry(index: number): Header {
    const header = index <= STATIC.length ? STATIC[index - 1] : this.#table[index - STATIC.length - 1];
    if (!header) throw new MessageFault("an invalid header table index");
    return header;
  }

  #add(header: Header): void {
    this.#table.unshift(header);
    this.#size += costOf(header);
    this.#evict();
  }

  #resize(max: number): void {
    if (max > TABLE_MAX) throw new MessageFault("an oversized header table");
    this.#max = max;
    this.#evict();
  }

  #evict(): void {
    while (this.#size > this.#max) this.#size -= costOf(this.#table.pop()!);
  }
}

function costOf([name, value]: Header): number {
  return name.length + value.length + ENTRY_COST;
}

class BlockReader {
  #at = 0;

  constructor(readonly block: Uint8Array) {}

  get remaining(): number {
    return this.block.length - this.#at;
  }

  peek(): number {
    return this.block[this.#at];
  }

  integer(bits: number): number {
    const most = 2 ** bits - 1;
    let value = this.#byte() & most;
    if (value < most) return value;
    for (let factor = 1; factor <= 128 ** 3; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw new MessageFault("a number too large in a header block");
  }

  text(): string {
    const isHuffman = (this.peek() & 0x80) !== 0;
    const length = this.integer(7);
    if (length > this.remaining) throw new MessageFault("a truncated header block");
    const bytes = this.block.subarray(this.#at, this.#at += length);
    return isHuffman ? decodeHuffman(bytes) : decodeLatin1(bytes);
  }

  #byte(): number {
    if (this.remaining === 0) throw new MessageFault("a truncated header block");
    return this.block[this.#at++];
  }
}

// Huffman code of header text (RFC 7541 Appendix B).

/**
 * Code length of each symbol as a letter: `a` is 5 bits. The code is canonical and follows from the lengths:
 * codes of one length count up by symbol, continuing from the shorter ones.
 */
const LENGTHS =
  "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccccckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwvz";
const EOS = 256;
/** Two entries per node, for the bits 0 and 1: the next node, or a symbol as −1 − symbol. */
const tree = new Int16Array(2 * 513);

/** Decodes a string to byte text. @throws {MessageFault} for EOS within it, and for invalid padding */
function decodeHuffman(bytes: Uint8Array): string {
  let text = "";
  let node = 0;
  /** bits since the last symbol; valid padding is at most 7 ones */
  let rest = 0;
  let isOnes = true;
  for (const byte of bytes) {
    for (let mask = 0x80; mask > 0; mask >>= 1) {
      const bit = byte & mask ? 1 : 0;
      const next = tree[node * 2 + bit];
      rest++;
      isOnes &&= bit === 1;
      if (next >= 0) {
        node = next;
        continue;
      }
      if (-1 - next === EOS) throw new MessageFault("EOS within a header string");
      text += String.fromCharCode(-1 - next);
      node = rest = 0;
      isOnes = true;
    }
  }
  if (rest > 7 || !isOnes) throw new MessageFault("invalid padding of a header string");
  return text;
}

buildTree();

function buildTree(): void {
  const symbols = Array.from(LENGTHS, (letter, symbol) => ({ symbol, length: letter.charCodeAt(0) - 92 }))
    .sort((a, b) => a.length - b.length || a.symbol - b.symbol);
  let code = 0;
  let before = 0;
  let nodes = 1;
  for (const { symbol, length } of symbols) {
    code *= 2 ** (length - before);
    before = length;
    let node = 0;
    for (let bit = length - 1; bit > 0; bit--) {
      const place = node * 2 + (code >>> bit & 1);
      if (tree[place] === 0) tree[place] = nodes++;
      node = tree[place];
    }
    tree[node * 2 + (code & 1)] = -1 - symbol;
    code++;
  }
}
