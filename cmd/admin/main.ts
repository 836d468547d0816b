/** sbx-admin: builds guest images, and creates and checks the parts of releases. */
import { brief, formatJson, note, print } from "../../lib/base/print/mod.ts";
import {
  type CommandGroup,
  dispatch,
  formatOverview,
  hasJsonOption,
  helpWidth,
  unknownCommand,
} from "../../lib/base/args/mod.ts";
import { asSbxError, errorBody } from "../../lib/base/error/mod.ts";
import { isLogged } from "../../lib/base/log/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { PROGRAM } from "./program.ts";

/** Groups of commands, in the order of help, and the file of each. */
const FILES: Record<string, string> = {
  image: "image",
  manifest: "manifest",
  profile: "profile",
  policy: "policy",
  detection: "detection",
  release: "release/mod",
  package: "package/mod",
  fleet: "fleet/mod",
  ca: "ca",
  users: "users",
};

/** Loads a group. The specifier is computed, as in cmd/sbx/commands.ts; all.ts names the files. */
async function loadGroup(name: string): Promise<CommandGroup> {
  const file = `./${FILES[name]}.ts`;
  return (await import(file)).group;
}

/** Loads all groups, for help and docs. */
export async function allGroups(): Promise<CommandGroup[]> {
  return await Promise.all(Object.keys(FILES).map(loadGroup));
}

/** Exit codes: 0 success, 1 failure or a negative report, 2 invalid call, 130 interrupted. */
export async function main(argv: string[]): Promise<number> {
  const [word] = argv;
  if (argv.length === 1 && ["--version", "-V"].includes(word)) {
    await print(`${PROGRAM} ${VERSION}`);
    return 0;
  }
  if (word === undefined || ["help", "--help", "-h"].includes(word)) {
    await printOverview();
    return word === undefined ? 2 : 0;
  }
  return await dispatch({ name: PROGRAM, find: findGroup, fail }, argv);

  async function fail(cause: unknown): Promise<number> {
    // Loaded for errors only.
    const { withoutSecretWords } = await import("../../lib/credential/mod.ts");
    const error = withoutSecretWords(asSbxError(cause, `${PROGRAM} ${argv.slice(0, 2).join(" ")}`), argv);
    if (hasJsonOption(argv)) await print(formatJson(errorBody(error)));
    else note(brief(`${PROGRAM}: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`));
    // A bug of sbx: print the cause for its developers.
    if (error.code === "internal" || error.cause !== undefined && isLogged("debug")) {
      note(Deno.inspect(error.cause));
    }
    if (error.code === "usage.invalid") return 2;
    return error.code === "image.interrupted" ? 130 : 1;
  }
}

async function findGroup(word = ""): Promise<CommandGroup> {
  if (Object.hasOwn(FILES, word)) return await loadGroup(word);
  throw await unknownCommand(PROGRAM, word, Object.keys(FILES));
}

async function printOverview(): Promise<void> {
  await print(formatOverview(
    `${PROGRAM} COMMAND: guest images, and the parts of releases`,
    [{ title: "Commands", commands: (await allGroups()).flatMap(({ subcommands }) => subcommands) }],
    `${PROGRAM} COMMAND --help shows the options of a command.`,
    helpWidth(),
  ));
}
