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

/**
 * A host in its canonical spelling: a name in lower case without the last dot; an address in dotted decimal or
 * RFC 5952, without brackets, IPv4 in IPv6 as IPv4. `undefined` for anything else, also for a name that ends in a number:
 * some programs take it for an address.
 *
 * @param text name or address in any spelling
 */
export const canonicalHost = memoize((text: string): string | undefined => {
  const name = text.toLowerCase().replace(/\.$/, "");
  // No top-level domain begins with a digit.
  if (isHostName(name) && !/(?:^|\.)[0-9][^.]*$/.test(name)) return name;
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
