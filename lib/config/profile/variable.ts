/** Variables that decide which code a program of the guest runs, its configuration, or its connections. */

/**
 * By what reads them: shells and the loader, tools, interpreters, compilers, the network, agents and clouds.
 */
const NAMES = [
  "PATH|HOME|USER|SHELL|IFS|ENV|PWD|PROMPT_COMMAND|PS4|ZDOTDIR|(?:BASH|LD|DYLD|GCONV|XDG|SBX)_.*|TERMINFO",
  "EDITOR|VISUAL|(?:MAN)?PAGER|BROWSER|LESS(?:OPEN|CLOSE)|(?:GIT|SSH|SSL)_.*|CURL_HOME|WGETRC|DOCKER_.*|KUBECONFIG",
  "(?:NODE|DENO|BUN|NPM_CONFIG|YARN|COREPACK|PIP|UV|CONDA|LUA|DOTNET|CORECLR|COMPLUS|BUNDLE)_.*",
  "PYTHON.*|PERL.*|RUBY.*|GEM_(?:HOME|PATH)|PHPRC|PHP_INI_SCAN_DIR",
  "_?JAVA_.*|JDK_.*|CLASSPATH|(?:MAVEN|GRADLE|SBT|JVM)_.*|GO(?:FLAGS|PROXY|SUMDB|NOSUMDB|TOOLCHAIN|ROOT|ENV)",
  "(?:RUSTC|CARGO|RUSTUP)_.*|RUSTC|RUSTDOC|RUST(?:DOC)?FLAGS|(?:GNU)?MAKEFLAGS|CC|CXX",
  "HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|.*_PROXY|.*_(?:BASE_URL|API_BASE|ENDPOINT(?:_URL)?)|.*_CA_(?:BUNDLE|CERTS?)",
  "(?:ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|GOOGLE|OPENCODE|COPILOT|QWEN|CLINE|KILO|AWS|AZURE|OTEL|OLLAMA|MCP)_.*",
  "DISABLE_.*|IS_SANDBOX",
];
const RESERVED = new RegExp(`^(?:${NAMES.join("|")})$`, "i");

/**
 * Tests whether a variable may not come from a repository, and is a program where
 * a setting of an agent sets it.
 */
export function isReservedVariable(name: string): boolean {
  return RESERVED.test(name);
}
