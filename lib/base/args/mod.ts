/** Command lines: declarations of commands, arguments of a call, dispatch, help. */
export { Arguments } from "./arguments.ts";
export {
  type Command,
  type CommandGroup,
  flagsOf,
  HELP_OPTION,
  isGroup,
  JSON_OPTION,
  lastWordOf,
  type Option,
} from "./command.ts";
export { daysOption, sinceOf } from "./days.ts";
export { dispatch, hasJsonOption, type Program, unknownCommand } from "./dispatch.ts";
export { formatFlags, formatHelp, formatOverview } from "./help.ts";
export { findSubcommand, parseArguments } from "./parse.ts";
export { type Invocation, usageError } from "./usage.ts";
