/** Notes for an agent about its VM, in the file of instructions that it reads at each start. */

/** The notes; the file is the agent's, and a person's instructions may follow them. */
const NOTES = `# This VM

You work in a VM of sbx, with rules of your user for the network. A request that a rule refuses, or that waits for
your user, is answered with the name of the rule (HTTP 403 or 503, DNS NXDOMAIN or SERVFAIL). Do not work around it:

- \`sbx-ask HOST --why "what it is for"\`, or with a URL, asks your user for access and waits for the answer. Exit
  code 0: send the request again; 75: not answered yet, and the same command waits on; 1: no.
- \`sbx-ask --list\` shows what waits for your user.
- \`sbx-mcp-server\` is an MCP server for programs of this VM, on standard input and output: its tools
  \`local__request_access\` and \`local__list_asks\` do the same, and it has the servers that your user's profile names.
`;

/** The file of notes of an agent that reads one. */
export function notesOf({ instructions }: { instructions?: string }): Record<string, string> {
  return instructions === undefined ? {} : { [instructions]: NOTES };
}
