/** Programs that an agent would run by itself: hooks, MCP servers and files, each asked about. */
import { canonicalJson } from "../base/json/mod.ts";
import { quoteWord } from "../base/text/mod.ts";
import { isTable } from "../base/toml/mod.ts";
import { isReservedVariable, type SettingsFile } from "../config/profile/mod.ts";
import { entriesOf, findValues, type KeyPath, pathName, type Table } from "./value.ts";

/** A program that the agent runs by itself, or a server that it connects to. */
export interface SetupProgram {
  /** file and keys: the same one at each reading */
  id: string;
  /** hook: a command line in settings; server: an MCP server; file: it is run, or runs something, itself */
  kind: "hook" | "server" | "file";
  file: string;
  /** keys of its setting; absent for a file */
  name?: string;
  /** command line or address; of a file, why it is one */
  line: string;
  /** of an MCP server at an address; the policy is asked about it as about every host */
  host?: string;
}

/** A program with the place of its setting. */
export interface PlacedProgram extends SetupProgram {
  path?: KeyPath;
}

/** Names of settings that hold a command line, wherever they are. */
const COMMAND_NAME = /(?:^|[a-z_-])(?:command|cmd|exec|helper|script)s?$/i;
/** Names of tables of hooks and of servers. */
const HOOKS_NAME = /^hooks?$/i, SERVERS_NAME = /^mcp_?servers?$/i;
/** Name of a table of variables, and the form of their names anywhere. */
const VARIABLES_NAME = /^env(?:ironment)?$/i, VARIABLE_FORM = /^[A-Z_][A-Z0-9_]*$/;
/** Variables that name one of the guest's programs, without a path or options of its own. */
const CHOICE = /^(?:EDITOR|VISUAL|(?:MAN)?PAGER|BROWSER|SHELL|USER|CC|CXX)$/i;

/** Programs in a file of settings: declared by the agent's profile, or by names that say so. */
export function programsIn(
  file: string,
  settings: Table,
  { programs, servers }: Pick<SettingsFile, "programs" | "servers">,
): PlacedProgram[] {
  const found: PlacedProgram[] = [];
  const add = (kind: SetupProgram["kind"], path: KeyPath, value: unknown) => {
    if (found.some((each) => each.path!.every((key, at) => key === path[at]))) return;
    if (value === "" || value === null || typeof value === "boolean" || typeof value === "number") return;
    found.push({ id: `${file}#${pathName(path)}`, kind, file, name: pathName(path), path, ...lineOf(value) });
  };
  for (const pattern of servers) {
    findValues(settings, pattern).forEach(({ path, value }) => add("server", path, value));
  }
  for (const pattern of programs) {
    findValues(settings, pattern).forEach(({ path, value }) => add("hook", path, value));
  }
  const setsProgram = (key: string, path: KeyPath, value: unknown) =>
    isReservedVariable(key) && !(CHOICE.test(key) && /^[\w-]*$/.test(String(value))) &&
    (VARIABLE_FORM.test(key) || VARIABLES_NAME.test(path.at(-1) ?? ""));
  const look = (value: unknown, path: KeyPath) => {
    for (const [key, each] of entriesOf(value)) {
      const at = [...path, key];
      if (found.some(({ path }) => path!.length <= at.length && path!.every((key, i) => key === at[i]))) {
        continue;
      }
      if (HOOKS_NAME.test(key) && !found.some(({ path }) => at.every((key, i) => key === path![i]))) {
        if (entriesOf(each).length > 0) add("hook", at, each);
      } else if (SERVERS_NAME.test(key)) {
        for (const [name, server] of entriesOf(each)) add("server", [...at, name], server);
      } else if (
        (COMMAND_NAME.test(key) || setsProgram(key, path, each)) &&
        (typeof each === "string" || Array.isArray(each))
      ) {
        add("hook", at, each);
      } else look(each, at);
    }
  };
  look(settings, []);
  return found;
}

/** A command line or address as a person reads it. */
function lineOf(value: unknown): Pick<SetupProgram, "line" | "host"> {
  if (typeof value === "string") return { line: value };
  if (Array.isArray(value) && value.every((word) => typeof word === "string")) return { line: words(value) };
  if (!isTable(value)) return { line: canonicalJson(value) };
  const names = [value.env, value.environment, value.headers].flatMap((each) =>
    entriesOf(each).map(([name]) => name)
  );
  const more = names.length === 0 ? "" : `  (with ${names.join(", ")})`;
  const url = [value.url, value.httpUrl, value.serverUrl, value.uri].find((each) => typeof each === "string");
  if (url !== undefined) {
    const host = URL.parse(url as string)?.hostname;
    return { line: `${url}${more}`, ...host && { host } };
  }
  const { command, args } = value;
  const line = [
    ...typeof command === "string" ? [command] : Array.isArray(command) ? [words(command)] : [],
    ...Array.isArray(args) ? [words(args)] : [],
  ].join(" ");
  return { line: line === "" ? canonicalJson(value) : `${line}${more}` };
}

const words = (list: readonly unknown[]) => list.map((word) => quoteWord(String(word))).join(" ");
