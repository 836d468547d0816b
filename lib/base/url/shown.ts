/**
 * Writes an address for a message, without the user, password, query and fragment that somebody put into it. Where a password
 * has a `?`, `#`, `/` or `@` of its own, nobody knows where it ends: less is shown then.
 */
export function shownAddress(text: string): string {
  const [scheme] = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text) ?? [""];
  const rest = text.slice(scheme.length);
  const at = rest.lastIndexOf("@"), query = rest.search(/[?#]/);
  if (at >= 0 && query >= 0) return `${scheme}…`;
  if (at >= 0) return `${scheme}…@${rest.slice(at + 1)}`;
  return query < 0 ? text : `${scheme}${rest.slice(0, query)}${rest[query]}…`;
}
