/**
 * `make build`: the program of every role in one file, byte for byte the same wherever and whenever it is built.
 *
 *     deno run -A scripts/build.ts --out DIR [--version SEMVER] [--target TRIPLE]
 *
 * SOURCE_DATE_EPOCH and BUILD_HASH replace what git says of the commit. DENORT_BIN, where it is set, names the runtime that
 * deno compile puts in front, and DENO_COMPILE another Deno to compile with.
 *
 * deno compile stores times of files, and paths of packages in the messages of its parser. So it compiles a copy of the
 * sources and of their packages, which is always in the same folder and has the time of the commit.
 */
import { parseArgs } from "@std/cli";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readStamp, stampSource } from "./build_stamp.ts";
import { copyPackages, copyTree, setTimes } from "./build_stage.ts";
import { type HostPackage, hostPackages } from "./host_packages.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The folder in which programs are compiled; its name is part of the program. */
const STAGE = "/tmp/sbx-build";
const SOURCES = ["main.ts", "cmd", "lib", "ffi", "deno.json", "deno.lock"];
const ROLES = [
  "sbx-service",
  "sbx-process",
  "sbx-gateway",
  "sbx-admin",
  "sbx-mcp-aggregator",
  "sbx-mcp",
  "sbx-tray",
];
/** No code cache: it saves 10 ms of a start, and is read from a name in /tmp that anybody can foresee. */
const COMPILE = [
  "compile",
  "--quiet",
  "--no-check",
  "--frozen",
  "--cached-only",
  "--no-code-cache",
  "-A",
  "--unstable-vsock",
];
const INCLUDED = [".guest", ".desktop", "cmd/all.ts", "lib/ledger/worker.ts", "lib/live/worker.ts"];

const { out = "dist", version, target } = parseArgs(Deno.args, { string: ["out", "version", "target"] });
using _lock = await openStage();
const sources = join(STAGE, "src");
const denoDir = join(STAGE, "deno");
for (const dir of [sources, denoDir]) await Deno.remove(dir, { recursive: true }).catch(() => {});
try {
  const stamp = await readStamp(ROOT, version);
  for (const name of SOURCES) await copyTree(join(ROOT, name), join(sources, name));
  await Deno.writeTextFile(join(sources, "lib/base/version/stamp.ts"), stampSource(stamp));
  await bundleGuests();
  await deno("scripts/desktop.sh", [join(sources, ".desktop")], ROOT);
  const packages = await hostPackages(ROOT);
  await prune(packages);
  await copyPackages(packages, join(ROOT, ".deno/cache/npm"), join(denoDir, "npm"));
  await setTimes(STAGE, stamp.sourceDateEpoch);
  await Deno.mkdir(out, { recursive: true });
  const program = await Deno.realPath(out).then((path) => join(path, "sbx"));
  await deno(
    Deno.env.get("DENO_COMPILE") || Deno.execPath(),
    [
      ...COMPILE,
      ...target ? ["--target", target] : [],
      ...INCLUDED.flatMap((path) => ["--include", path]),
      "--output",
      program,
      "main.ts",
    ],
    sources,
    { DENO_DIR: denoDir },
    "where it cannot download its runtime, DENORT_BIN names one",
  );
  await Deno.chmod(program, 0o755);
  for (const role of ROLES) {
    await Deno.remove(join(out, role)).catch(() => {});
    await Deno.symlink("sbx", join(out, role));
  }
} finally {
  for (const dir of [sources, denoDir]) await Deno.remove(dir, { recursive: true }).catch(() => {});
}

/** Makes the stage this user's own, and waits for another build in it. */
async function openStage(): Promise<Deno.FsFile> {
  await Deno.mkdir(STAGE, { mode: 0o700 }).catch(() => {});
  const { isDirectory, uid, mode } = await Deno.lstat(STAGE);
  if (!isDirectory || uid !== Deno.uid() || (mode! & 0o077) !== 0) {
    fail(`${STAGE} belongs to somebody else: remove it`);
  }
  const lock = await Deno.open(join(STAGE, "lock"), { write: true, create: true });
  await lock.lock(true);
  return lock;
}

/** Bundles the guest's programs, which `sbx-admin image build` puts into images. */
async function bundleGuests(): Promise<void> {
  const names = (await Array.fromAsync(Deno.readDir(join(ROOT, "cmd/guest")))).map(({ name }) => name).sort();
  await Deno.mkdir(join(sources, ".guest"));
  for (const name of names) {
    const program = name === "snapshots" ? name : `sbx-${name.replaceAll("_", "-")}`;
    const file = join(sources, ".guest", `${program}.js`);
    const args = [
      "bundle",
      "--quiet",
      "--minify",
      "--platform",
      "deno",
      "-o",
      file,
      `cmd/guest/${name}/main.ts`,
    ];
    await deno(Deno.execPath(), args, ROOT);
  }
}

/**
 * Leaves the program's packages alone in deno.json and deno.lock of the copy: deno compile includes every package that
 * they name, those of tests too.
 */
async function prune(packages: HostPackage[]): Promise<void> {
  const edit = async (name: string, change: (json: any) => void) => {
    const json = JSON.parse(await Deno.readTextFile(join(sources, name)));
    change(json);
    await Deno.writeTextFile(join(sources, name), JSON.stringify(json));
  };
  const keys = new Set(packages.map(({ key }) => key));
  const versions = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const isUsed = (specifier: string) => versions.has(specifier.match(/^npm:\/?(@?[^@]+@[^/]+)/)?.[1] ?? "");
  await edit("deno.json", ({ imports }) => {
    for (const name of Object.keys(imports)) if (!isUsed(imports[name])) delete imports[name];
  });
  await edit("deno.lock", ({ specifiers, npm, workspace }) => {
    for (const specifier of Object.keys(specifiers)) if (!isUsed(specifier)) delete specifiers[specifier];
    for (const key of Object.keys(npm)) if (!keys.has(key)) delete npm[key];
    workspace.dependencies = workspace.dependencies.filter(isUsed);
  });
}

async function deno(
  program: string,
  args: string[],
  cwd: string,
  env: Record<string, string> = {},
  hint = "",
): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args, cwd, env, stdout: "null" }).output();
  if (!success) fail(`deno ${args[0]} failed${hint && `; ${hint}`}\n${new TextDecoder().decode(stderr)}`);
}

function fail(message: string): never {
  throw new Error(`build: ${message}`);
}
