/**
 * Namespaced names of tools, prompts and resources of several servers (docs/design/contracts/08-mcp.md §8),
 * and other text of servers made safe to show.
 */
import { FOREIGN_CHARS_MAX, NAME_CHARS_MAX } from "./limit.ts";

/** Separator between a server name and its tool or prompt name. */
const SEPARATOR = "__";
const SCHEME = "sbx://";
// deno-lint-ignore no-control-regex
const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/u;

/** A server, and the name of an entry within it. */
export interface QualifiedName {
  server: string;
  name: string;
}

/** `<server>__<tool>`, and the same for prompts. */
export function namespacedName(server: string, name: string): string {
  return server + SEPARATOR + name;
}

/**
 * Splits at the first `__`; later ones belong to the name.
 * @returns `undefined` when server or name is missing
 */
export function splitName(namespaced: string): QualifiedName | undefined {
  return split(namespaced, 0, SEPARATOR);
}

/** `sbx://<server>/<original uri>`. */
export function namespacedUri(server: string, uri: string): string {
  return `${SCHEME}${server}/${uri}`;
}

/** Splits `sbx://<server>/<original uri>`. @returns `undefined` for any other URI */
export function splitUri(namespaced: string): QualifiedName | undefined {
  return namespaced.startsWith(SCHEME) ? split(namespaced, SCHEME.length, "/") : undefined;
}

function split(text: string, from: number, separator: string): QualifiedName | undefined {
  const at = text.indexOf(separator, from);
  const name = at < 0 ? "" : text.slice(at + separator.length);
  return at > from && name ? { server: text.slice(from, at), name } : undefined;
}

/**
 * The reason why a server name is invalid. Also rejects names whose tools would be routed to another server,
 * and names a person cannot read.
 */
export function serverNameProblem(name: string): string | undefined {
  if (name === "") return "is empty";
  if (name === "builtin") return 'must not be "builtin"';
  if (name.includes(SEPARATOR)) return "must not contain __";
  if (name.endsWith("_")) return "must not end with _: its tools would be routed to another server";
  if (name.includes("/")) return "must not contain /: its resources would be routed to another server";
  return nameProblem(name);
}

/** The reason why a tool or prompt name is invalid. Spaces and emoji are allowed. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "is empty";
  if (name.length > NAME_CHARS_MAX) return `is longer than ${NAME_CHARS_MAX} characters`;
  if (UNPRINTABLE.test(name)) return "contains control or invisible characters";
}

// deno-lint-ignore no-control-regex
const UNPRINTABLE_RUNS = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

/** Failure of a stdio server: the aggregator cannot start programs. */
export const STDIO_UNSUPPORTED = "stdio servers are not supported; only HTTP servers are";

/** Text of a server made safe for a log or an error: one printable line of at most `max` characters. */
export function foreignText(text: string, max = FOREIGN_CHARS_MAX): string {
  const line = text.slice(0, max * 2).replace(UNPRINTABLE_RUNS, " ").trim().toWellFormed();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
