const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Text of UTF-8 bytes; undefined when they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Text for bytes that may not be UTF-8: other bytes as `\xe9`, a backslash as `\\`. */
export function escapeBytes(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = [1, 2, 3, 4].find((count) =>
      at + count <= bytes.length && decodeUtf8(bytes.subarray(at, at + count)) !== undefined
    );
    if (length === undefined) text += `\\x${bytes[at++].toString(16).padStart(2, "0")}`;
    else {
      const char = decodeUtf8(bytes.subarray(at, at += length))!;
      text += char === "\\" ? "\\\\" : char;
    }
  }
  return text;
}

/** Formats a count with its noun: `1 VM`, `2 VMs`. @param plural irregular plural form */
export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`;
}

/** Quotes a word for a POSIX shell. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
