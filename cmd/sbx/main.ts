/** sbx: the command-line client; `sbx NAME` is `TOPIC/NAME.ts`. Each command is loaded on use. */
import {
  type Command,
  type CommandGroup,
  dispatch,
  hasJsonOption,
  unknownCommand,
} from "../../lib/base/args/mod.ts";
import { asSbxError, type SbxError } from "../../lib/base/error/mod.ts";
import { isLogged } from "../../lib/base/log/mod.ts";
import { note } from "../../lib/base/print/mod.ts";
import { ALIASES, COMMAND_WORDS, COMMANDS, loadCommand, SHORT_FORMS, TRIED } from "./commands.ts";
import { takeHost } from "./host.ts";
import { printError, PROGRAM } from "./output.ts";

/** Exit code of an invalid call. */
const USAGE = 2;
/** No shorter argument looks like a secret. */
const WORD_MIN = 20;

/** Runs the command named by the first argument. @returns the exit code */
export async function main(argv: string[]): Promise<number> {
  try {
    argv = takeHost(argv);
    const [word, ...rest] = argv;
    argv = [...SHORT_FORMS.get(word) ?? argv.slice(0, 1), ...rest];
  } catch (error) {
    return await fail(error);
  }
  return await dispatch({ name: PROGRAM, find: findCommand, fail }, argv);

  async function fail(error: unknown, command?: Command): Promise<number> {
    const failure = await withoutSecrets(asSbxError(error, `sbx ${argv[0] ?? ""}`.trim()), argv);
    printError(failure, hasJsonOption(argv));
    if (failure.cause !== undefined && isLogged("debug")) note(Deno.inspect(failure.cause));
    return failure.code === "usage.invalid" ? USAGE : command?.failure ?? 1;
  }
}

/** The error without arguments that look like secrets. Loads the check, in 50 ms, for long arguments only. */
async function withoutSecrets(error: SbxError, argv: string[]): Promise<SbxError> {
  if (argv.every((word) => word.length < WORD_MIN)) return error;
  const { withoutSecretWords } = await import("../../lib/credential/mod.ts");
  return withoutSecretWords(error, argv);
}

async function findCommand(word = "help"): Promise<Command | CommandGroup> {
  const name = ALIASES.get(word) ?? word;
  if (COMMANDS.includes(name)) return await loadCommand(name);
  throw await unknownCommand(PROGRAM, name, COMMAND_WORDS, TRIED.get(name)?.hint);
}
