/**
 * Built-in profiles, as TOML that users can copy as the start of their own: for people, for agents, and
 * locked ones (docs/guides/agents.md).
 */
/** Node and npm of the guests. */
const NODE = ["node-linux-{cpu}@24.21.0", "npm@12.2.0"];
/** Debian packages for writing code: tools of agents, and of builds. */
const APT = [
  ...[
    "ca-certificates",
    "git",
    "curl",
    "less",
    "procps",
    "ripgrep",
    "jq",
    "unzip",
    "openssh-server",
    "rsync",
  ],
  ...["gcc", "g++", "libc6-dev", "make", "pkg-config", "python3", "python3-pip", "python3-venv"],
];

/** Hosts that are only read: package registries, and files of git hosts. */
const REGISTRIES = [
  "registry.npmjs.org",
  "pypi.org",
  "files.pythonhosted.org",
  "crates.io",
  "static.crates.io",
  "index.crates.io",
  "proxy.golang.org",
  "sum.golang.org",
  "rubygems.org",
  "repo.maven.apache.org",
  "deb.debian.org",
  "jsr.io",
  "raw.githubusercontent.com",
  "codeload.github.com",
  "objects.githubusercontent.com",
];
/** Hosts from which repositories are fetched. */
const GIT_HOSTS = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/** The part of a profile that differs between agents. */
interface AgentFacts {
  id: string;
  name: string;
  description: string;
  /** packages beside Node and npm, with exact versions */
  npm: string[];
  /** `[packages] bin`, as TOML */
  bin?: string;
  /** provider of its models; absent: services of the host */
  provider?: string;
  /** services of the host that have its models */
  services?: string[];
  /** hosts of its models */
  hosts: string[];
  /** hosts that the agent reports to, or looks for updates and additions at, refused without a question */
  telemetry?: string[];
  /** kinds of credentials that it reads; default keys */
  reads?: string[];
  /** beginnings of `host/path` that it needs with a login of a subscription */
  login?: string[];
  /** `[agent]`, as TOML */
  agent: string;
}

/** Services of the host whose models agents use, as profiles name them. */
const MODEL_SERVICES = ["ollama", "lmstudio", "llama-cpp", "vllm", "litellm"];

/** Parts of both profiles of opencode. */
const OPENCODE = {
  packages: {
    // The package opencode-ai brings four builds of the program, of which a script keeps one.
    npm: ["opencode-linux-{cpu}@1.18.33"],
    bin: 'bin = { opencode = "opencode-linux-{cpu}/bin/opencode" }',
  },
  start: `command = ["opencode"]
headless = ["opencode", "run", "{prompt}"]`,
  rest: `[agent.continue]
command = ["opencode", "--continue"]
headless = ["opencode", "run", "--continue", "{prompt}"]
conversations = "/root/.local/share/opencode/*"

[agent.env]
OPENCODE_DISABLE_AUTOUPDATE = "true"
OPENCODE_DISABLE_LSP_DOWNLOAD = "true"
# It has a list of models built in.
OPENCODE_DISABLE_MODELS_FETCH = "true"`,
};

/** @param account the model provider's address, and where its key is, as TOML */
const codexConfig = (account: string) =>
  `model_provider = "sbx"
check_for_update_on_startup = false

[model_providers.sbx]
name = "OpenAI"
${account}
wire_api = "responses"

# Looked for at github.com and chatgpt.com at each start on a terminal.
[features]
apps = false
plugins = false
# sbx reads requests to models.
enable_request_compression = false

[projects."{place}"]
trust_level = "trusted"

[analytics]
enabled = false

[otel]
exporter = "none"
`;

/** @param type how it authenticates. */
const geminiSettings = (type: string) =>
  `{"privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
 "security": {"auth": {"selectedType": "${type}"}}}
`;

const AGENTS: AgentFacts[] = [
  {
    id: "claude",
    name: "Claude Code",
    description: "Anthropic's coding agent.",
    npm: ["@anthropic-ai/claude-code@2.1.330"],
    bin: 'bin = { claude = "@anthropic-ai/claude-code-linux-{cpu}/claude" }',
    provider: "anthropic",
    // A renewal at the second one is answered by the host.
    hosts: ["api.anthropic.com", "platform.claude.com"],
    reads: ["key", "token", "subscription"],
    telemetry: [
      "downloads.claude.ai",
      "statsig.anthropic.com",
      "statsig.com",
      "sentry.io",
      "http-intake.logs.us5.datadoghq.com",
    ],
    agent: `command = ["claude", "--dangerously-skip-permissions"]
headless = ["claude", "--dangerously-skip-permissions", "-p", "{prompt}"]
model = ["--model", "{model}"]

[agent.continue]
command = ["claude", "--dangerously-skip-permissions", "--continue"]
headless = ["claude", "--dangerously-skip-permissions", "--continue", "-p", "{prompt}"]
conversations = "/root/.claude/projects/*/*.jsonl"

[agent.env]
CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1"
CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL = "1"
DISABLE_AUTOUPDATER = "1"
DISABLE_ERROR_REPORTING = "1"
DISABLE_TELEMETRY = "1"
# Claude Code refuses to skip its own questions as root, except in a sandbox.
IS_SANDBOX = "1"

[agent.files]
"/root/.claude.json" = '''
{"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
 "customApiKeyResponses": {"approved": ["{key_end}"], "rejected": []},
 "projects": {"{place}": {"hasTrustDialogAccepted": true}}}
'''
`,
  },
  {
    id: "codex",
    name: "Codex",
    description: "OpenAI's coding agent.",
    npm: ["@openai/codex@0.169.0"],
    provider: "openai",
    hosts: ["api.openai.com"],
    reads: ["key", "subscription"],
    login: ["chatgpt.com/backend-api/", "auth.openai.com/oauth/token"],
    telemetry: ["ab.chatgpt.com"],
    agent: `command = ["codex", "--dangerously-bypass-approvals-and-sandbox"]
headless = ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "{prompt}"]
model = ["--model", "{model}"]

[agent.continue]
command = ["codex", "resume", "--last", "--dangerously-bypass-approvals-and-sandbox"]
headless = ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "resume", "--last", "{prompt}"]
conversations = "/root/.codex/sessions/*"

[agent.files]
"/root/.codex/config.toml" = '''
${codexConfig('base_url = "https://api.openai.com/v1"\nenv_key = "OPENAI_API_KEY"')}'''

[agent.subscription.files]
"/root/.codex/config.toml" = '''
${codexConfig('base_url = "https://chatgpt.com/backend-api/codex"\nrequires_openai_auth = true')}'''
`,
  },
  {
    id: "opencode",
    name: "opencode",
    description: "The open source coding agent, with Anthropic's models.",
    ...OPENCODE.packages,
    provider: "anthropic",
    hosts: ["api.anthropic.com"],
    agent: `${OPENCODE.start}
model = ["--model", "{model}"]
local = "opencode-local"

${OPENCODE.rest}

[agent.files]
"/root/.config/opencode/opencode.json" = '''
{"share": "disabled", "autoupdate": false, "permission": {"edit": "allow", "bash": "allow", "webfetch": "allow"}}
'''
`,
  },
  {
    id: "opencode-local",
    name: "opencode with a local model",
    description:
      "The open source coding agent, with a model of this host: Ollama, LM Studio, llama.cpp, vLLM, LiteLLM.",
    ...OPENCODE.packages,
    services: MODEL_SERVICES,
    hosts: MODEL_SERVICES.map((name) => `${name}.host.sbx`),
    agent: `${OPENCODE.start}

${OPENCODE.rest}

[agent.files]
"/root/.config/opencode/opencode.json" = '''
{"share": "disabled", "autoupdate": false, "permission": {"edit": "allow", "bash": "allow", "webfetch": "allow"},
 "enabled_providers": ["local"], "model": "local/{model}", "small_model": "local/{model}",
 "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "name": "This host",
  "options": {"baseURL": "{model_url}", "apiKey": "none"}, "models": {"{model}": {"name": "{model}"}}}}}
'''
`,
  },
  {
    id: "gemini",
    name: "Gemini CLI",
    description: "Google's coding agent.",
    npm: ["@google/gemini-cli@0.61.0"],
    provider: "google",
    hosts: ["generativelanguage.googleapis.com"],
    reads: ["key", "subscription"],
    login: [
      "cloudcode-pa.googleapis.com/v1internal",
      "oauth2.googleapis.com/token",
      "www.googleapis.com/oauth2/v2/userinfo",
    ],
    telemetry: ["play.googleapis.com"],
    agent: `command = ["gemini", "--yolo", "--skip-trust"]
headless = ["gemini", "--yolo", "--skip-trust", "-p", "{prompt}"]
model = ["--model", "{model}"]

[agent.continue]
command = ["gemini", "--yolo", "--skip-trust", "--resume", "latest"]
headless = ["gemini", "--yolo", "--skip-trust", "--resume", "latest", "-p", "{prompt}"]
conversations = "/root/.gemini/tmp/*/chats/*"

[agent.env]
GEMINI_TELEMETRY_ENABLED = "false"

[agent.files]
"/root/.gemini/settings.json" = '''
${geminiSettings("gemini-api-key")}'''

[agent.subscription.files]
"/root/.gemini/settings.json" = '''
${geminiSettings("oauth-personal")}'''
`,
  },
];

/** A list of texts, the same in TOML and in CEL. */
const list = (words: string[]) => `[${words.map((word) => JSON.stringify(word)).join(", ")}]`;

/** Condition of a `host/path` and what begins with it. */
function atPath(place: string): string {
  const at = place.indexOf("/");
  const [host, path] = [place.slice(0, at), place.slice(at)].map((text) => JSON.stringify(text));
  return `http.request.host == ${host} && http.request.path.startsWith(${path})`;
}

/** Rules that allow reading registries and repositories and everything at the provider's hosts, and ask about the rest. */
function lockedRules(
  { hosts, login = [], telemetry = [], read = [] }: Pick<AgentFacts, "hosts" | "login" | "telemetry"> & {
    /** hosts that are only read, beside package registries */
    read?: string[];
  },
) {
  const readable = [...REGISTRIES, ...read];
  const rule = (id: string, name: string, action: string, match: string, priority = "") =>
    `[profiles.rules.${id}]\nname = "${name}"\naction = "${action}"\n${priority}match = '${match}'\n`;
  return [
    rule(
      "read-registries",
      "Read package registries",
      "allow",
      `http.request.method in ["GET", "HEAD"] && http.request.host in ${list(readable)}`,
    ),
    rule(
      "fetch-repositories",
      "Fetch repositories",
      "allow",
      `http.request.host in ${list(GIT_HOSTS)} && http.request.git.service == "git-upload-pack"`,
    ),
    ...hosts.length > 0
      ? [rule("provider", "Use the model provider", "allow", `http.request.host in ${list(hosts)}`)]
      : [],
    ...login.length > 0
      ? [rule("login", "Use the login of a subscription", "allow", login.map(atPath).join(" || "))]
      : [],
    rule(
      "names",
      "Look up these hosts",
      "allow",
      `dns.request.qname in ${
        list([...readable, ...GIT_HOSTS, ...hosts, ...login.map((place) => place.split("/")[0])])
      }`,
    ),
    ...telemetry.length > 0
      ? [rule(
        "telemetry",
        "No telemetry",
        "block",
        telemetry.map((host) =>
          `in_domain(http.request.host, "${host}") || in_domain(dns.request.qname, "${host}")`
        )
          .join(" || "),
      )]
      : [],
    rule(
      "everything-else",
      "Everything else",
      "ask",
      "(has(http.request) && !is_private_host(http.request.host)) || has(dns.request)",
      "priority = 900\n",
    ),
  ].join("\n");
}

function agentProfile(facts: AgentFacts): string {
  const { id, name, description, npm, bin, provider, services, agent, reads = ["key"] } = facts;
  return `# ${name} in a locked VM: sbx agent ${id}
id = "${id}"
name = "${name}"
description = "${description}"
revision = "1.0.0"

[vm]
ram_gb = 2

[packages]
apt = ${list(APT)}
npm = ${list([...NODE, ...npm])}
${bin ? `${bin}\n` : ""}
${services ? `[host]\nservices = ${list(services)}\n\n` : ""}[credentials]
providers = ${list(provider ? [provider] : [])}
accounts = "stored"

[agent]
${provider ? `provider = "${provider}"\nreads = ${list(reads)}\n` : ""}${agent}
${lockedRules(facts)}`;
}

const LOCKED = `# A machine whose programs read registries and repositories, and ask for everything else.
id = "locked"
name = "Locked"
description = "The machine of code, whose requests to other hosts than registries and repositories are asks."
revision = "1.0.0"

[packages]
apt = ${list(APT)}
npm = ${list(NODE)}

[credentials]
providers = ["anthropic", "openai", "google", "github"]
accounts = "stored"

${lockedRules({ hosts: ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"] })}`;

/** Id → profile.toml of the locked profiles. */
export const LOCKED_PROFILES: ReadonlyMap<string, string> = new Map([
  ["locked", LOCKED],
  ...AGENTS.map((facts): [string, string] => [facts.id, agentProfile(facts)]),
]);

const CODE = `# A machine to write and run code in.
id = "code"
name = "Code"
description = "A Debian machine with git, a C compiler, make, Python, Node and npm for coding agents."
revision = "1.2.0"

[packages]
apt = ${list(APT)}
npm = ${list(NODE)}

[credentials]
providers = ["anthropic", "openai", "google", "github"]
`;

const DOCKER = `# code, and Docker.
id = "docker"
name = "Docker"
description = "The machine of code with Docker: images are built and containers run under its rules."
revision = "1.0.0"

[vm]
ram_gb = 2

[packages]
docker = true
apt = ${list(APT)}
npm = ${list(NODE)}

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

[packages]
apt = ["ca-certificates", "git", "curl", "python3", "less", "procps", "jq", "zip", "unzip", "pandoc"]

[credentials]
providers = ["anthropic", "openai", "google"]
`;

/** Registries of images, with the hosts that they send downloads to. */
const IMAGE_REGISTRIES = [
  "registry-1.docker.io",
  "auth.docker.io",
  "production.cloudflare.docker.com",
  "docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com",
  "ghcr.io",
  "pkg-containers.githubusercontent.com",
  "quay.io",
  "cdn.quay.io",
  "cdn01.quay.io",
  "cdn02.quay.io",
  "cdn03.quay.io",
  "mcr.microsoft.com",
  "registry.k8s.io",
  "gcr.io",
  "public.ecr.aws",
];
/** Package archives of the distributions that images are made of. */
const DISTRIBUTIONS = [
  "security.debian.org",
  "archive.ubuntu.com",
  "security.ubuntu.com",
  "ports.ubuntu.com",
  "dl-cdn.alpinelinux.org",
  "nodejs.org",
  "go.dev",
  "dl.google.com",
  "static.rust-lang.org",
];
/** Notices of the devcontainers project: features that are known to be bad. */
const DEVCONTAINERS = "containers.dev";

const BUILDER = `# A machine that builds images from Dockerfiles: docs/guides/dockerfile.md.
id = "builder"
name = "Builder"
description = "A Debian machine with buildah. Steps of a build read registries and repositories; other requests are asks."
revision = "1.1.0"

[vm]
ram_gb = 4

[packages]
apt = ["ca-certificates", "git", "buildah", "netavark", "crun", "jq"]
# Installs the features of a devcontainer.json; Deno of the layer runs it.
npm = ["@devcontainers/cli@0.89.0"]

[credentials]
providers = ["anthropic", "openai", "google", "github"]
accounts = "stored"

${lockedRules({ hosts: [], read: [...IMAGE_REGISTRIES, ...DISTRIBUTIONS, DEVCONTAINERS] })}`;

/** Id → profile.toml of each built-in profile (docs/design/contracts/04-profiles.md §4). */
export const BUILTIN_PROFILES: ReadonlyMap<string, string> = new Map([
  ["code", CODE],
  ["co-work", CO_WORK],
  ["builder", BUILDER],
  ["docker", DOCKER],
  ...LOCKED_PROFILES,
]);
