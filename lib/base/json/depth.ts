/** Nesting of JSON texts; readers that recurse would overflow the stack. */

/** Tests whether JSON is nested deeper than `max` levels. */
export function isDeeper(json: string, max: number): boolean {
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at);
    else if (unit === BRACKET || unit === BRACE) {
      if (++depth > max) return true;
    } else if (unit === BRACKET + 2 || unit === BRACE + 2) depth--;
  }
  return false;
}

const QUOTE = 34;
const BACKSLASH = 92;
const BRACKET = 91;
const BRACE = 123;

/** Index of the closing quote of the string that begins at `from`. */
function endOfString(json: string, from: number): number {
  for (let end = json.indexOf('"', from + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let escapes = 0;
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}
