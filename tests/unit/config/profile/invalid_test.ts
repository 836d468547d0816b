/** Errors of an invalid profile.toml: file, line, path and message of each problem. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError, statusOf } from "../../../../lib/base/error/mod.ts";
import { loadProfile } from "../../../../lib/config/profile/mod.ts";
import { KEY } from "../../../helper/credential.ts";

const MINIMAL = 'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n';

/** Error message for a profile `p`, with its path as `f`. */
async function errorOf(text: string): Promise<string> {
  const profilesDir = await Deno.makeTempDir();
  const path = join(profilesDir, "p", "profile.toml");
  try {
    await Deno.mkdir(join(profilesDir, "p"));
    await Deno.writeTextFile(path, text);
    const error = await assertRejects(() => loadProfile({ profilesDir }, "p"), SbxError);
    assertEquals([error.code, statusOf(error.code)], ["profile.invalid", 400]);
    return error.message.replaceAll(path, "f");
  } finally {
    await Deno.remove(profilesDir, { recursive: true });
  }
}

const H = "0".repeat(64);
const asset = (hash: string, name = "vmlinuz") =>
  `[assets.arch.arm64]\nkernel = { name = "${name}", url = "file:///x", hash = "${hash}", size = 1 }\n` +
  `initrd = { name = "i", url = "https://a.example/i", hash = "blake3:${H}", size = 1 }\n` +
  `rootfs = { name = "r", url = "https://a.example/r", hash = "blake3:${H}", size = 1 }\n`;
const hashWords = 'must be "blake3:" and 64 lower-case hex characters';
const rule = (more: string) => `[profiles.rules.a]\nname = "A"\naction = "block"\nmatch = "true"\n${more}\n`;

const PIN = `file = "a", sha256 = "${H}"`;
const packages = (text: string) => `${MINIMAL}[packages]\n${text}\n`;

const PROBLEMS: [string, string, string][] = [
  [
    "a file above the profile's folder",
    packages(`script = { file = "../a", sha256 = "${H}" }`),
    "f:6: packages.script.file: must be a path below the profile's folder, of letters, digits and @ + ~ . - _",
  ],
  [
    "a file where the image has a link",
    packages(`files = [{ ${PIN}, to = "/bin/a" }]`),
    "f:6: packages.files[0].to: is not kept there: write /usr/bin for /bin, and /etc or /opt",
  ],
  [
    "a file below another",
    packages(`files = [{ ${PIN}, to = "/opt/a/b" }, { ${PIN}, to = "/opt/a" }]`),
    "f:6: packages.files: has /opt/a/b below /opt/a, which is a file: give one of them another place",
  ],
  [
    "a file in place of a folder",
    packages(`files = [{ ${PIN}, to = "/usr/local/bin" }]`),
    "f:6: packages.files[0].to: is a folder of Debian: name the file in it",
  ],
  [
    "a file with set-id bits",
    packages(`files = [{ ${PIN}, to = "/a", mode = "4755" }]`),
    'f:6: packages.files[0].mode: must be a mode such as "0644"',
  ],
  [
    "a password in an address",
    packages(`[packages.pip]\nlock = { ${PIN} }\nindex = "https://me:secret@pypi.example.com/simple"`),
    "f:8: packages.pip.index: must be an address of http or https, without user, password, query and #",
  ],
  [
    "a source whose line would have another",
    packages(
      `[[packages.apt_source]]\nuri = "https://a.example/ x] deb"\nsuite = "s"\ncomponents = ["main"]\nsigned_by = { ${PIN} }`,
    ),
    "f:7: packages.apt_source[0].uri: must be an address of http or https, without user, password, query and #",
  ],
  [
    "a crate without an exact version",
    packages('[packages.cargo]\ninstall = ["ripgrep"]'),
    "f:7: packages.cargo.install[0]: not a crate with its exact version, such as ripgrep@14.1.0",
  ],
  [
    "an option as a package of Go",
    packages('[packages.go]\ninstall = ["-toolexec=x@v1.0.0"]'),
    "f:7: packages.go.install[0]: not a package of Go with its exact version, such as golang.org/x/tools/gopls@v0.18.1",
  ],
  [
    "crates in bookworm",
    packages('suite = "bookworm"\n[packages.cargo]\ninstall = ["ripgrep@14.1.0"]'),
    "f:7: packages.cargo: needs trixie: bookworm's cargo reads no sparse index",
  ],
  ["TOML that does not parse", MINIMAL + "x = \n", "f:5:5: not valid TOML: invalid value"],
  ["a key twice", MINIMAL + 'id = "p"\n', "f:5:1: this key or table is defined twice"],
  [
    "an id that is not the folder's name",
    MINIMAL.replace('"p"', '"q"'),
    'f:1: id: "q" is not the name of its folder, "p"',
  ],
  ["no name", MINIMAL.replace('name = "P"\n', ""), "f:1: name: is missing"],
  [
    "a revision that is not SemVer",
    MINIMAL.replace("1.0.0", "v1"),
    "f:4: revision: must be a SemVer version such as 1.2.0",
  ],
  ["an unknown key", MINIMAL + "revison = 1\n", 'f:5: revison: unknown key; did you mean "revision"?'],
  [
    "an unknown nested key",
    MINIMAL + "[vm]\ncpu_cont = 1\n",
    'f:6: vm.cpu_cont: unknown key; did you mean "cpu_count"?',
  ],
  [
    "an unknown key of a service",
    MINIMAL + '[services.db]\ncommand = ["postgres"]\nrestarts = "no"\n',
    'f:7: services.db.restarts: unknown key; did you mean "restart"?',
  ],
  [
    "a service after one that does not exist",
    MINIMAL + '[services.web]\ncommand = ["web"]\nafter = ["db"]\n',
    'f:7: services.web.after[0]: there is no service "db"',
  ],
  [
    "a service after one whose name is misspelt",
    MINIMAL +
    '[services.web]\ncommand = ["web"]\nafter = ["postgre"]\n[services.postgres]\ncommand = ["postgres"]\n',
    'f:7: services.web.after[0]: there is no service "postgre"; did you mean "postgres"?',
  ],
  [
    "services after each other",
    MINIMAL + '[services.a]\ncommand = ["a"]\nafter = ["b"]\n[services.b]\ncommand = ["b"]\nafter = ["c"]\n' +
    '[services.c]\ncommand = ["c"]\nafter = ["b"]\n',
    "f:10: services.b.after: is a cycle: b after c after b",
  ],
  [
    "a service after itself",
    MINIMAL + '[services.a]\ncommand = ["a"]\nafter = ["a"]\n',
    "f:7: services.a.after: is a cycle: a after a",
  ],
  [
    "two ways for a service to be ready",
    MINIMAL + '[services.a]\ncommand = ["a"]\nready = { port = 80, command = ["true"] }\n',
    "f:7: services.a.ready: needs one of port and command",
  ],
  [
    "a name of a service that is an option",
    MINIMAL + '[services.-a]\ncommand = ["a"]\n',
    "f:5: services.-a: must be the name of a service: a letter, then up to 31 of a-z 0-9 _ -",
  ],
  [
    "more services than a VM may have",
    MINIMAL + Array.from({ length: 17 }, (_, at) => `[services.s${at}]\ncommand = ["a"]\n`).join(""),
    "f:5: services: must have at most 16 services",
  ],
  [
    "a secret in a variable of a service",
    MINIMAL + `[services.a]\ncommand = ["a"]\nenv = { X = "${KEY.github}" }\n`,
    "f:7: services.a.env.X: must not hold a secret; store it with sbx credentials add: programs find its ref in " +
    "their variables",
  ],
  [
    "a service of the host without a port",
    MINIMAL + '[host]\nservices = ["api"]\n',
    'f:6: host.services[0]: must be NAME:PORT, such as "api:8080", or one of ollama, lmstudio, llama-cpp, vllm, ' +
    "litellm, postgres, mysql, redis",
  ],
  [
    "a service of the host twice",
    MINIMAL + '[host]\nservices = ["ollama", "ollama:11434"]\n',
    "f:6: host.services: must not name a service twice",
  ],
  [
    "an image that none is called",
    MINIMAL + '[image]\nfrom = "UPPER case"\n',
    "f:6: image.from: does not name an image",
  ],
  [
    "an image and programs of packages",
    MINIMAL + '[image]\nfrom = "golang:1.25"\n[packages.bin]\nx = "x/y.js"\n',
    "f:5: [image] cannot be combined with [assets], or with packages other than apt and npm",
  ],
  [
    "an image and a company's own packages",
    MINIMAL + '[image]\nfrom = "golang:1.25"\n[[packages.deb]]\nfile = "a.deb"\nsha256 = "' + "0".repeat(64) +
    '"\n',
    "f:5: [image] cannot be combined with [assets], or with packages other than apt and npm",
  ],
  ["a wrong type", MINIMAL + '[vm]\nram_gb = "2"\n', "f:6: vm.ram_gb: must be a number"],
  ["a fraction of a CPU", MINIMAL + "[vm]\ncpu_count = 1.5\n", "f:6: vm.cpu_count: must be an integer"],
  ["too many CPUs", MINIMAL + "[vm]\ncpu_count = 65\n", "f:6: vm.cpu_count: must be at most 64"],
  [
    "a class that no profile can give",
    MINIMAL + '[activity.paths]\n"/srv" = "home"\n',
    'f:6: activity.paths."/srv": must be one of "workspace", "secret", "system", "temp"',
  ],
  [
    "a path with ..",
    MINIMAL + '[activity.paths]\n"/srv/../x" = "temp"\n',
    'f:6: activity.paths."/srv/../x": must be an absolute path without //, . or .., and without / at its end',
  ],
  [
    "a path of the kernel's",
    MINIMAL + '[activity.paths]\n"/proc/self" = "secret"\n',
    'f:6: activity.paths."/proc/self": has no files: it is the kernel\'s',
  ],
  ["no memory", MINIMAL + "[vm]\nram_gb = 0\n", "f:6: vm.ram_gb: must be at least 1"],
  [
    "a hash of 63",
    MINIMAL + asset(`blake3:${H.slice(1)}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a hash not in hex",
    MINIMAL + asset(`blake3:${"g".repeat(64)}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a hash of another kind",
    MINIMAL + asset(`sha256:${H}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a file name with a folder",
    MINIMAL + asset(`blake3:${H}`, "a/b"),
    "f:6: assets.arch.arm64.kernel.name: must be a bare file name, without / \\ or ..",
  ],
  [
    "an unknown architecture",
    MINIMAL + "[assets.arch.riscv]\n",
    "f:5: assets.arch.riscv: unknown key; expected one of arm64, x86_64",
  ],
  [
    "a priority above its layer",
    MINIMAL + rule("priority = 9"),
    "f:9: profiles.rules.a.priority: the priority of a profile rule must be 10 or higher",
  ],
  [
    "an unknown rewrite",
    MINIMAL + rule('rewrite = [{ op = "drop", path = "x" }]'),
    'f:9: profiles.rules.a.rewrite[0].op: must be one of "set", "strip_header", "replace"',
  ],
  [
    "a rule file outside the folder",
    MINIMAL + '[rule_files]\nsigma = "../x"\n',
    "f:6: rule_files.sigma: must be a path without ..",
  ],
  [
    "a server id with __",
    MINIMAL + '[mcp.a__b]\nname = "A"\ncommand = "/a"\n',
    "f:5: mcp.a__b: a server id is 1 to 64 of A-Z a-z 0-9 _ - without __, and does not end in _",
  ],
  [
    "a secret in MCP",
    MINIMAL +
    '[mcp.a]\nname = "A"\nurl = "https://a.example"\nauth = { kind = "oauth", credential_ref = "sk-x" }\n',
    'f:8: mcp.a.auth.credential_ref: must be "credential:blake3:" and 64 hex characters, never the secret',
  ],
  [
    "a secret among the variables of a program",
    MINIMAL + '[mcp.a]\nname = "A"\ncommand = "/a"\nenv = { A_TOKEN = "hunter2" }\n',
    'f:8: mcp.a.env.A_TOKEN: must be "credential:blake3:" and 64 hex characters, never the secret',
  ],
  [
    "a key among the arguments of a program",
    MINIMAL + `[mcp.a]\nname = "A"\ncommand = "/a"\nargs = ["--key", "${KEY.github}"]\n`,
    "f:8: mcp.a.args[1]: must not hold a secret; store it with sbx credentials add and use its ref",
  ],
  [
    "variables of a server that has no program",
    MINIMAL + '[mcp.a]\nname = "A"\nurl = "https://a.example"\nenv = { A = "b" }\n',
    "f:8: mcp.a.env: is for stdio servers only",
  ],
  [
    "a program that is missing",
    MINIMAL + '[mcp.a]\nname = "A"\ntransport = "stdio"\n',
    'f:5: mcp.a.command: is missing; transport "stdio" needs it',
  ],
  [
    "an option as package",
    MINIMAL + '[packages]\napt = ["--allow-unauthenticated"]\n',
    "f:6: packages.apt[0]: not the name of a Debian package",
  ],
  [
    "a URL as npm package",
    MINIMAL + '[packages]\nnpm = ["https://x"]\n',
    "f:6: packages.npm[0]: not the name of an npm package",
  ],
  [
    "an unknown provider",
    MINIMAL + '[credentials]\nproviders = ["acme"]\n',
    `f:6: credentials.providers[0]: is not a provider (sbx credentials providers lists them)`,
  ],
  [
    "a script in the icon",
    MINIMAL + "icon_svg = '<svg onload=\"x()\"></svg>'\n",
    "f:5: icon_svg: must be an <svg> without scripts",
  ],
  ["a NUL in text", MINIMAL.replace('"P"', '"P\\u0000"'), "f:2: name: must not contain NUL"],
];

for (const [name, text, message] of PROBLEMS) {
  Deno.test(`refused: ${name}`, async () => assertEquals(await errorOf(text), message));
}

Deno.test("all problems are named at once, in line order", async () => {
  const lines = (await errorOf('id = "p"\nrevision = 1\n[vm]\ncpu_count = 99\nx = 1\n')).split("\n");
  assertEquals(lines.map((line) => line.split(": ").slice(0, 2).join(": ")), [
    "f:1: name",
    "f:1: description",
    "f:2: revision",
    "f:4: vm.cpu_count",
    "f:5: vm.x",
  ]);
});
