import type { EventProcess } from "./event.ts";

/** Longest name of a guest's program in an event, in characters. */
const NAME_MAX = 256;

/**
 * The process of an event, of which a guest gives only the name and sometimes the pid: `executable` and `command` are both
 * that name, without control characters.
 *
 * @param name as the guest gives it, and not verified
 * @returns `undefined` for an empty name
 */
export function processOf(name: string, pid = 0): EventProcess | undefined {
  // deno-lint-ignore no-control-regex
  const plain = name.replace(/[\x00-\x1f\x7f]/g, "").slice(0, NAME_MAX);
  return plain === "" ? undefined : { command: plain, cwd: "", executable: plain, pid, ppid: 0 };
}
