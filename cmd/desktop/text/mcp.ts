/** Texts of the tools page. */
export const mcp = {
  about:
    "MCP servers give tools to the programs of a VM. Each call passes the rules of the profile, and is on record.",
  empty: "This profile has no MCP server.",
  noVm: "No VM of this profile runs: its servers are connected when one does.",
  servers: "MCP servers",
  server: "Server",
  source: "From",
  sources: { corp: "Organization", profile: "Profile", builtin: "sbx" } as Record<string, string>,
  state: "State",
  tools: "Tools",
  actions: "Actions",
  connected: "connected",
  waiting: "not connected",
  off: "off",
  refresh: (name: string) => `Reconnect ${name}`,
  reconnect: "Reconnect",
  refreshed: (name: string) => `${name} is connected again.`,
  moreFor: (name: string) => `More for ${name}`,
  login: (name: string) => `Log in to ${name}`,
  loginShort: "Log in",
  loginAbout: (issuer: string) =>
    `The login happens at ${issuer}, in another tab of this browser. The token stays on this machine; VMs never get it.`,
  openLogin: (issuer: string) => `Open ${issuer}`,
  loginWaits: "Waiting for the login, 10 minutes at most…",
  loggedIn: (name: string) => `Logged in to ${name}.`,
  notLoggedIn: (name: string) => `The login to ${name} ended without success.`,
  logout: (name: string) => `Log out of ${name}`,
  loggedOut: (name: string) => `Logged out of ${name}.`,
  add: "Add a server",
  addAbout: (profile: string) =>
    `Servers are in the file of the profile, where a team can review them. Add one to ${profile}'s profile.toml, and list it:`,
  addExample: `[mcp.tickets]
name = "Tickets"
url = "https://mcp.example.com/mcp"

[mcp.memory]
name = "Memory"
command = "deno"
args = ["run", "-A", "npm:@modelcontextprotocol/server-memory"]`,
  addCommand: (profile: string) => `sbx mcp servers -p ${profile}`,
  heldBack: (server: string, tool: string) => `${server}: ${tool} changed, and is held back`,
  toolsOf: (server: string) => `Tools of ${server}`,
  noTools: "It has no tools.",
  tool: "Tool",
  description: "Description",
  pin: "Pin",
  isHeldBack: "changed, held back",
  approve: (tool: string) => `Approve ${tool}`,
  approved: (tool: string) => `${tool} is approved.`,
};
