/** Remedies of the API, which are written for the CLI, in the words of tools. */

const TOOL_OF: [RegExp, string][] = [
  [/\bsbx profile list\b/g, "`profiles`"],
  [/\bsbx mcp (?:tools|servers)(?: -p \S+)?/g, "`mcp_tools`"],
  [/\bsbx create --profile (\S+)/g, "`create` with profile_id $1"],
  [/\bsbx why ([0-9a-f]{12})\b/g, "`why` with event_id $1"],
  [/\bsbx jobs logs(?: --follow)? ([0-9a-f]{8})\b/g, "`job_logs` with job $1"],
  [/\bsbx jobs stop ID\b/g, "`stop_job`"],
  [/\bsbx jobs\b(?! [a-z]+ [0-9a-f])/g, "`jobs`"],
  [/\bsbx port NAME (?:PORT|\d+) --remove\b/g, "`close_port`"],
  [/\bsbx port NAME\b(?! [A-Z\d])/g, "`ports`"],
  [/\bsbx (list|info|delete|logs|events|asks)\b/g, "`$1`"],
  [/\bsbx start (?=boots)/g, "`start` "],
  [/\b(stop one with) sbx stop\b/g, "$1 `stop`"],
];
/** A command of the CLI that no tool replaces. */
const COMMAND = /\bsbx [a-z]+\b/;

/** Names tools where there is one; what only a person can do is for the agent's user. */
export function hintForAgent(hint: string): string {
  const text = TOOL_OF.reduce((text, [command, tool]) => text.replace(command, tool), hint);
  return COMMAND.test(text) ? `for the person you work for: ${text}` : text;
}
