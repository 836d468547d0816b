import { SbxError } from "../../lib/base/error/mod.ts";
import { nearest } from "../../lib/event/mod.ts";

/** What one subcommand takes. */
export interface Taken {
  /** flags with a value, such as `version` */
  values: string[];
  /** flags without one, such as `json` */
  switches: string[];
  /** names of the arguments, each of which must be there */
  positionals: string[];
}

/** What a user gave. */
export interface Given {
  values: Record<string, string>;
  switches: Set<string>;
  positionals: string[];
}

/**
 * Arguments of a subcommand: `--flag value`, `--flag=value`, and `--` before arguments that begin with a dash.
 *
 * @throws {SbxError} `usage.invalid`
 */
export function parseArguments(args: string[], taken: Taken): Given {
  const given: Given = { values: {}, switches: new Set(), positionals: [] };
  const rest = [...args];
  while (rest.length > 0) {
    const word = rest.shift()!;
    if (word === "--") given.positionals.push(...rest.splice(0));
    else if (word.startsWith("-") && word !== "-") takeFlag(word, rest, taken, given);
    else given.positionals.push(word);
  }
  const wanted = taken.positionals;
  if (given.positionals.length < wanted.length) {
    throw usage(`the argument ${wanted[given.positionals.length]} is missing`);
  }
  if (given.positionals.length > wanted.length) {
    throw usage(`there is no place for "${given.positionals[wanted.length]}"`);
  }
  return given;
}

function takeFlag(word: string, rest: string[], { values, switches }: Taken, given: Given): void {
  const [flag, inline] = word.includes("=")
    ? [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]
    : [word];
  const name = flag.replace(/^--/, "");
  if (flag.startsWith("--") && switches.includes(name)) {
    if (inline !== undefined) throw usage(`${flag} takes no value`);
    given.switches.add(name);
    return;
  }
  if (!flag.startsWith("--") || !values.includes(name)) {
    const known = [...values, ...switches].map((known) => `--${known}`);
    const near = nearest(flag, known);
    throw usage(
      `there is no flag ${flag}`,
      near ? `did you mean ${near}?` : `it takes ${known.join(", ") || "none"}`,
    );
  }
  if (Object.hasOwn(given.values, name)) throw usage(`${flag} is given twice`);
  const value = inline ?? rest.shift();
  if (value === undefined || value === "" || (inline === undefined && value.startsWith("--"))) {
    throw usage(`${flag} needs a value`);
  }
  given.values[name] = value;
}

/** A call that cannot be meant. */
export function usage(message: string, hint = "sbx-admin --help shows what there is"): SbxError {
  return new SbxError("usage.invalid", message, { hint });
}
