/** Command lines: declarations of commands, arguments of a call, dispatch, help. */
export {
  Arguments,
  type Command,
  type CommandGroup,
  type Completion,
  daysOption,
  flagsOf,
  HELP_OPTION,
  type Invocation,
  isGroup,
  JSON_OPTION,
  lastWordOf,
  type Lookup,
  type Option,
  type Paths,
  sinceOf,
  usageError,
} from "./command.ts";
export { dispatch, hasJsonOption, type Program, unknownCommand } from "./dispatch.ts";
export { formatFlags, formatHelp, formatOverview, helpWidth } from "./help.ts";
export { findSubcommand, parseArguments } from "./parse.ts";
