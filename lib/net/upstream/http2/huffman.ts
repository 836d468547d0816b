/** Huffman code of header text (RFC 7541 Appendix B). */
import { MessageFault } from "../../fault.ts";

/**
 * Length of each symbol's code, as a letter: `a` is 5 bits. The code is canonical, so lengths are all there is to know:
 * codes of one length count up by symbol, and go on from those that are shorter.
 */
const LENGTHS =
  "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccccckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwvz";
const EOS = 256;
/** Two places for each node: where 0 and 1 lead. A symbol is kept as −1 − symbol. */
const tree = new Int16Array(2 * 513);

/** Text of a coded string, one char a byte. @throws {MessageFault} for EOS in it and for padding that is none */
export function decodeHuffman(bytes: Uint8Array): string {
  let text = "";
  let node = 0;
  /** bits since the last symbol, and whether they were all ones */
  let rest = 0;
  let ones = true;
  for (const byte of bytes) {
    for (let mask = 0x80; mask > 0; mask >>= 1) {
      const bit = byte & mask ? 1 : 0;
      const next = tree[node * 2 + bit];
      rest++;
      ones &&= bit === 1;
      if (next >= 0) {
        node = next;
        continue;
      }
      if (-1 - next === EOS) throw new MessageFault("a header string has an end within");
      text += String.fromCharCode(-1 - next);
      node = rest = 0;
      ones = true;
    }
  }
  if (rest > 7 || !ones) throw new MessageFault("a header string ends within a character");
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
