/** Huffman code of header text (RFC 7541 Appendix B). */
import { MessageFault } from "../../fault.ts";

/**
 * Code length of each symbol as a letter: `a` is 5 bits. The code is canonical and follows from the lengths: codes of one
 * length count up by symbol, continuing from the shorter ones.
 */
const LENGTHS =
  "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccccckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwvz";
const EOS = 256;
/** Two entries per node, for the bits 0 and 1: the next node, or a symbol as −1 − symbol. */
const tree = new Int16Array(2 * 513);

/** Decodes a string to byte text. @throws {MessageFault} for EOS within it, and for invalid padding */
export function decodeHuffman(bytes: Uint8Array): string {
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

build();

function build(): void {
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
