/** Built-in profiles, as TOML that users can copy as the start of their own. */
import { LOCKED_PROFILES } from "./builtin_agents.ts";

const CODE = `# A machine to write and run code in.
id = "code"
name = "Code"
description = "A Debian machine with git, curl, Python, Node and npm for coding agents."
revision = "1.1.0"

[packages]
apt = ["ca-certificates", "git", "curl", "python3", "less", "procps", "openssh-server", "rsync"]
npm = ["node-linux-{cpu}@24.21.0", "npm@12.2.0"]

[credentials]
providers = ["anthropic", "openai", "google", "github"]
`;

const CO_WORK = `# A machine for documents and everyday work beside a person.
id = "co-work"
name = "Co-work"
description = "A Debian machine with tools for documents, for agents that work beside a person."
revision = "1.0.0"

[vm]
ram_gb = 2
scratch_disk_size_gb = 8

[packages]
apt = ["ca-certificates", "git", "curl", "python3", "less", "procps", "jq", "zip", "unzip", "pandoc"]

[credentials]
providers = ["anthropic", "openai", "google"]
`;

/** Id → profile.toml of each built-in profile (docs/design/contracts/04-profiles.md §4). */
export const BUILTIN_PROFILES: ReadonlyMap<string, string> = new Map([
  ["code", CODE],
  ["co-work", CO_WORK],
  ...LOCKED_PROFILES,
]);
