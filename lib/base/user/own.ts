/** Who and where: the user of the host that this program runs as, and the name of the host. */
import { hostname, userInfo } from "node:os";

/** Longest name, in characters: they become part of records. */
const NAME_MAX = 128;

/** Name of this program's user; `uid N` without an entry in the user database. */
export function userName(): string {
  try {
    return clean(userInfo().username);
  } catch {
    return `uid ${Deno.uid()}`;
  }
}

/** Name of this host. */
export function deviceName(): string {
  try {
    return clean(hostname()) || "unknown";
  } catch {
    return "unknown";
  }
}

function clean(name: string): string {
  // deno-lint-ignore no-control-regex
  return name.replace(/[\x00-\x1f\x7f-\x9f]/g, "").slice(0, NAME_MAX);
}
