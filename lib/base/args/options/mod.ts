/** Options of a call, read by `@std/cli`. Loaded only for calls that have some. */
import { parseArgs } from "@std/cli";
import { flagsOf, type Option } from "../command.ts";

/** Words and options of a call. */
export interface ParsedOptions {
  words: string[];
  /** values by long name; none for a switch */
  values: Map<string, string[]>;
}

/** @returns the first unknown flag as `unknown` */
export function readOptions(
  options: readonly Option[],
  argv: readonly string[],
): ParsedOptions & { unknown?: string } {
  let unknown: string | undefined;
  const parsed: Record<string, unknown> & { _: string[] } = parseArgs(assignSwitches(argv, options), {
    string: ["_", ...options.filter(({ value }) => value !== undefined).map(({ name }) => name)],
    // Every option is collected, so that duplicates are seen.
    collect: options.map(({ name }) => name),
    alias: Object.fromEntries(options.flatMap(({ name, short }) => short ? [[name, short]] : [])),
    unknown: (flag: string, key?: string) => {
      if (key !== undefined) unknown ??= flag.split("=", 1)[0];
    },
  });
  const values = new Map<string, string[]>();
  for (const { name, value } of options) {
    const list = (parsed[name] ?? []) as string[];
    if (list.length > 0) values.set(name, value === undefined ? [] : list);
  }
  return { words: parsed._, values, ...(unknown !== undefined && { unknown }) };
}

/**
 * Writes every switch with a value: `--json` becomes `--json=true`. Otherwise `parseArgs` would take a following word
 * `true` or `false` as the value of the switch.
 */
function assignSwitches(argv: readonly string[], options: readonly Option[]): string[] {
  const switches = new Map(
    options.filter(({ value }) => value === undefined).flatMap((option) =>
      flagsOf(option).map((flag) => [flag, `--${option.name}=true`])
    ),
  );
  return argv.map((word) => switches.get(word) ?? word);
}
