/** Hosts in the one spelling that rules match (docs/design/contracts/05-policy.md §5, "Hosts"). */
import { memoize } from "../memo/mod.ts";
import { addressBytes, formatAddress } from "./parse.ts";

const LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const NAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);
/** Longest name, in characters (RFC 1035 §2.3.4). */
const NAME_MAX = 253;

/** True for text that can be a host name: labels of letters, digits, `-` and `_`, at most 253 characters. */
function isHostName(text: string): boolean {
  return text.length <= NAME_MAX && NAME.test(text);
}

const DOT = 46, HYPHEN = 45, DIGIT_0 = 48, DIGIT_9 = 57, UNDERSCORE = 95, LETTER_A = 97, LETTER_Z = 122;
/** Longest label of a name, in characters (RFC 1035 §2.3.4). */
const LABEL_MAX = 63;

/** True for a name that is canonical as it stands, as nearly all are: looking at it once takes less than looking it up. */
function isPlainName(text: string): boolean {
  const { length } = text;
  if (length === 0 || length > NAME_MAX) return false;
  let start = 0;
  for (let at = 0; at <= length; at++) {
    const unit = at < length ? text.charCodeAt(at) : DOT;
    if (unit === DOT) {
      if (at === start || at - start > LABEL_MAX || text.charCodeAt(at - 1) === HYPHEN) return false;
      if (at < length) start = at + 1;
    } else if (unit === HYPHEN) {
      if (at === start) return false;
    } else if (!(unit >= LETTER_A && unit <= LETTER_Z || isDigit(unit) || unit === UNDERSCORE)) return false;
  }
  // No top-level domain begins with a digit.
  return !isDigit(text.charCodeAt(start));
}

function isDigit(unit: number): boolean {
  return unit >= DIGIT_0 && unit <= DIGIT_9;
}

/**
 * A host in its canonical spelling: a name in lower case without the last dot; an address in dotted decimal or
 * RFC 5952, without brackets, IPv4 in IPv6 as IPv4. `undefined` for anything else, also for a name that ends in a number:
 * some programs take it for an address.
 *
 * @param text name or address in any spelling
 */
export function canonicalHost(text: string): string | undefined {
  return isPlainName(text) ? text : canonicalOfOther(text);
}

const canonicalOfOther = memoize((text: string): string | undefined => {
  const name = text.toLowerCase().replace(/\.$/, "");
  if (isPlainName(name)) return name;
  const bytes = addressBytes(name);
  if (bytes) return formatAddress(bytes);
  return isHostName(name) && !/(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/.test(name) ? name : undefined;
});

/** True for an address as programs and kernels write it: dotted decimal or hex groups, and nothing else. */
export function isAddress(text: string): boolean {
  const isSpelled = text.includes(":")
    ? /^[0-9a-fA-F:]{2,39}$|^[0-9a-fA-F:]{2,30}(?:[0-9]{1,3}\.){3}[0-9]{1,3}$/.test(text)
    : /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/.test(text);
  return isSpelled && addressBytes(text) !== undefined;
}
