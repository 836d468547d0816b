/** Names of what several servers offer together (spec.md, "Namespacing"). */
import { NAME_CHARS_MAX } from "./limit.ts";

/** Between the name of a server and that of its tool or prompt. */
const SEPARATOR = "__";
const SCHEME = "sbx://";
// deno-lint-ignore no-control-regex
const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/u;

/** A server and the name of something as that server knows it. */
export interface Routed {
  server: string;
  name: string;
}

/** `<server>__<tool>`; prompts alike. */
export function namespacedName(server: string, name: string): string {
  return server + SEPARATOR + name;
}

/** Split at the first `__`, so the name may hold more of them; undefined when it names no server or no tool. */
export function splitName(namespaced: string): Routed | undefined {
  return split(namespaced, 0, SEPARATOR);
}

/** `sbx://<server>/<original uri>`. */
export function namespacedUri(server: string, uri: string): string {
  return `${SCHEME}${server}/${uri}`;
}

/** The server and its own URI; undefined for every other URI. */
export function splitUri(namespaced: string): Routed | undefined {
  return namespaced.startsWith(SCHEME) ? split(namespaced, SCHEME.length, "/") : undefined;
}

function split(text: string, from: number, separator: string): Routed | undefined {
  const at = text.indexOf(separator, from);
  const name = at < 0 ? "" : text.slice(at + separator.length);
  return at > from && name ? { server: text.slice(from, at), name } : undefined;
}

/**
 * Why a server cannot have this name. Beyond the spec's three reasons, a name that would be routed to another server,
 * or that a person cannot read, is refused too.
 */
export function serverNameProblem(name: string): string | undefined {
  if (name === "") return "is empty";
  if (name === "builtin") return 'must not be "builtin"';
  if (name.includes(SEPARATOR)) return "must not contain __";
  if (name.endsWith("_")) return "must not end with _: its tools would be routed to another server";
  if (name.includes("/")) return "must not contain /: its resources would be routed to another server";
  return nameProblem(name);
}

/** Why a tool or prompt of this name is left out. Spaces and emoji are a server's own business. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "is empty";
  if (name.length > NAME_CHARS_MAX) return `is longer than ${NAME_CHARS_MAX} characters`;
  if (UNPRINTABLE.test(name)) return "has control or invisible characters";
}
