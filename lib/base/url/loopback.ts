/** True for host names of this machine in URLs. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(127\.[0-9.]+|localhost|\[::1\])$/.test(hostname);
}

/**
 * Writes an address for a message, without its user, password, query and fragment. The end of a password with
 * a `?`, `#`, `/` or `@` of its own is unknown: less is shown then.
 */
export function shownAddress(text: string): string {
  const [scheme] = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text) ?? [""];
  const rest = text.slice(scheme.length);
  const at = rest.lastIndexOf("@"), query = rest.search(/[?#]/);
  if (at >= 0 && query >= 0) return `${scheme}…`;
  if (at >= 0) return `${scheme}…@${rest.slice(at + 1)}`;
  return query < 0 ? text : `${scheme}${rest.slice(0, query)}${rest[query]}…`;
}
