/**
 * `make build`: the program of every role in one file, byte for byte the same
 * wherever and whenever it is built.
 *
 *     deno run -A scripts/build.ts --out DIR [--version SEMVER] [--target TRIPLE]
 *
 * SOURCE_DATE_EPOCH and BUILD_HASH replace what git says of the commit. DENORT_BIN, where it is set, names
 * the runtime that deno compile puts in front, and DENO_COMPILE another Deno to compile with.
 *
 * deno compile stores times of files, and paths of packages in the messages of its parser. So it compiles a
 * copy of the sources and of their packages, which is always in the same folder and has the time of the
 * commit. Packages are bundled, except native ones, and modules are minified JavaScript: everything in a
 * compiled program is read into memory when it starts, and deno compile keeps TypeScript beside the
 * JavaScript that it makes of it.
 */
import { parseArgs } from "@std/cli";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ifFound, ignore } from "../lib/base/error/mod.ts";
import { COLLECTOR_FLAG } from "../lib/base/heap/mod.ts";
import { ROLE_PROGRAMS } from "../lib/base/spawn/mod.ts";
import { readStamp, stampSource } from "./build_stamp.ts";
import { copyPackages, copyTree, MODULE_PATH, setTimes } from "./build_stage.ts";
import { bundlePackages, nameByContent, nativePackages } from "./build_vendor.ts";
import { packFolder } from "./desktop_pack.ts";
import { type HostPackage, hostPackages } from "./host_packages.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The folder in which programs are compiled; its name is part of the program. */
const STAGE = "/tmp/sbx-build";
const SOURCES = ["main.ts", "cmd", "lib", "ffi", "deno.json", "deno.lock"];
const ROLES = ROLE_PROGRAMS.filter((name) => name !== "sbx");
/** No code cache: it saves 10 ms of a start, and is read from a predictable name in /tmp. */
const COMPILE = [
  "compile",
  "--quiet",
  "--no-check",
  "--frozen",
  "--cached-only",
  "--no-code-cache",
  "-A",
  "--unstable-vsock",
  // Profiles are text.
  "--unstable-raw-imports",
  `--v8-flags=${COLLECTOR_FLAG}`,
];
const COMPILER = Deno.env.get("DENO_COMPILE") || Deno.execPath();
const RUNTIME = Deno.env.get("DENORT_BIN");
// Deno takes an empty name for a file.
if (!RUNTIME) Deno.env.delete("DENORT_BIN");
const INCLUDED = [
  ".guest",
  ".desktop",
  "cmd/all.js",
  "lib/ledger/worker.js",
  "lib/ledger/read/rest_worker.js",
  "lib/machine/live/worker.js",
  "lib/base/confine/launcher_worker.js",
];

const sources = join(STAGE, "src");
const minified = join(STAGE, "minified");
const denoDir = join(STAGE, "deno");
/** A link to the cache of the checkout. */
const cache = join(STAGE, "cache");

/** A failure whose message is for the person who builds. */
class BuildError extends Error {}

try {
  using _lock = await openStage();
  await clear();
  try {
    await build();
  } finally {
    await clear();
  }
} catch (error) {
  if (!(error instanceof BuildError)) throw error;
  console.error(`build: ${error.message}`);
  Deno.exitCode = 1;
}

async function build(): Promise<void> {
  const { out = "dist", version, target } = parseArgs(Deno.args, { string: ["out", "version", "target"] });
  const stamp = await readStamp(ROOT, version);
  for (const name of SOURCES) await copyTree(join(ROOT, name), join(sources, name));
  await Deno.writeTextFile(join(sources, "lib/base/version/stamp.ts"), stampSource(stamp));
  await bundleGuests();
  await deno("scripts/desktop.sh", [join(sources, ".desktop")], ROOT);
  await nameByContent(join(sources, ".desktop"));
  // Again: the files have other names now.
  await packFolder(join(sources, ".desktop"));
  await keepPacked(join(sources, ".desktop"));
  await Deno.symlink(join(ROOT, ".deno/cache"), cache);
  const bundled = await bundlePackages(
    ROOT,
    sources,
    // From the stage: the order of modules in a chunk follows their paths.
    (args) => deno(Deno.execPath(), ["bundle", "--quiet", ...args], sources, { DENO_DIR: cache }),
  );
  const packages = nativePackages(await hostPackages(ROOT));
  await prune(packages, bundled);
  await minifyModules();
  await copyPackages(packages, join(ROOT, ".deno/cache/npm"), join(denoDir, "npm"));
  await setTimes(STAGE, stamp.sourceDateEpoch);
  await Deno.mkdir(out, { recursive: true });
  // The existing program stays until the new one has started.
  const fresh = await Deno.makeTempDir({ dir: await Deno.realPath(out), prefix: ".build-" });
  try {
    await compile(join(fresh, "sbx"), target);
    await Deno.rename(join(fresh, "sbx"), join(out, "sbx"));
  } finally {
    await Deno.remove(fresh, { recursive: true });
  }
  for (const role of ROLES) {
    await ifFound(Deno.remove(join(out, role)));
    await Deno.symlink("sbx", join(out, role));
  }
}

async function compile(program: string, target?: string): Promise<void> {
  await link(program, target).catch((error) => {
    if (!/error sending request for url .*denort-/.test(error.message)) throw error;
    throw new BuildError(
      `deno compile found no runtime and cannot download one: DENORT_BIN names a denort of Deno ${Deno.version.deno}`,
    );
  });
  await Deno.chmod(program, 0o755);
  if (!target || target === Deno.build.target) await start(program);
}

async function link(program: string, target?: string): Promise<void> {
  await deno(
    COMPILER,
    [
      ...COMPILE,
      ...target ? ["--target", target] : [],
      ...INCLUDED.flatMap((path) => ["--include", path]),
      "--output",
      program,
      "main.js",
    ],
    sources,
    { DENO_DIR: denoDir },
    `where ${COMPILER} cannot download its runtime, DENORT_BIN names a denort of its version`,
  );
}

async function clear(): Promise<void> {
  for (const dir of [sources, minified, denoDir, cache]) await ifFound(Deno.remove(dir, { recursive: true }));
}

/**
 * Starts the compiled program: deno compile puts any runtime in front, even one that cannot read the program.
 */
async function start(program: string): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(program, {
    args: ["version", "--json"],
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  if (success && decode(stdout).startsWith("{")) return;
  throw new BuildError(
    `the compiled program does not start${reason(decode(stderr))}\n` +
      `  DENORT_BIN (${RUNTIME || "not set"}) must be the denort of the version of ${COMPILER}`,
  );
}

/** An error of Deno without its stack. */
function reason(text: string): string {
  const [message] = text.trim().split(/\n\s*Stack backtrace/);
  return message && `: ${message}`;
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Makes the stage this user's own, and waits for another build in it. */
async function openStage(): Promise<Deno.FsFile> {
  await Deno.mkdir(STAGE, { mode: 0o700 }).catch(ignore("the folder is looked at next"));
  const { isDirectory, uid, mode } = await Deno.lstat(STAGE);
  if (!isDirectory || uid !== Deno.uid() || (mode! & 0o077) !== 0) {
    throw new BuildError(`${STAGE} belongs to another user: remove it, or ask that user`);
  }
  const lock = await Deno.open(join(STAGE, "lock"), { write: true, create: true });
  await lock.lock(true);
  return lock;
}

/**
 * Leaves of each file the one form that browsers take from the gateway; for
 * other clients it is unpacked there.
 */
async function keepPacked(dir: string): Promise<void> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  for (const name of names.filter((each) => each.endsWith(".gz")).map((each) => each.slice(0, -3))) {
    for (const other of [name, `${name}.br`]) await Deno.remove(join(dir, other));
  }
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
 * Replaces each module by one of the same name in JavaScript, without types, comments and spaces. Modules
 * keep their places, and functions their names for stack traces.
 */
async function minifyModules(): Promise<void> {
  const isModule = (path: string) => path.endsWith(".ts") && !path.endsWith(".d.ts");
  const modules = (await Promise.all(SOURCES.map((name) => listFiles(sources, name)))).flat().filter(
    isModule,
  );
  await deno(
    Deno.execPath(),
    [
      ...["bundle", "--quiet", "--platform", "deno", "--packages", "external", "--inline-imports=false"],
      ...["--minify", "--keep-names", "--outdir", minified, ...modules],
    ],
    sources,
    { DENO_DIR: cache },
  );
  for (const module of modules) {
    const path = module.replace(/\.ts$/, ".js");
    const code = await Deno.readTextFile(join(minified, path));
    await Deno.writeTextFile(join(sources, path), code.replaceAll(MODULE_PATH, "$1.js"));
    await Deno.remove(join(sources, module));
  }
}

/** The files at or below a path, relative to `root`. */
async function listFiles(root: string, path: string): Promise<string[]> {
  if (!(await Deno.stat(join(root, path))).isDirectory) return [path];
  const names = await Array.fromAsync(Deno.readDir(join(root, path)), ({ name }) => name);
  return (await Promise.all(names.sort().map((name) => listFiles(root, join(path, name))))).flat();
}

/** The parts of deno.json and deno.lock that are pruned. */
interface Pruned {
  imports: Record<string, string>;
  specifiers: Record<string, string>;
  npm: Record<string, { optionalDependencies?: string[] }>;
  workspace: { dependencies: string[] };
}

/**
 * Leaves only these packages in deno.json and deno.lock of the copy, and the bundled ones under their names:
 * deno compile includes every package named there, the tests' packages too.
 */
async function prune(packages: readonly HostPackage[], bundled: ReadonlyMap<string, string>): Promise<void> {
  const edit = async (name: string, change: (json: Pruned) => void) => {
    const json = JSON.parse(await Deno.readTextFile(join(sources, name)));
    change(json);
    await Deno.writeTextFile(join(sources, name), JSON.stringify(json));
  };
  const keys = new Set(packages.map(({ key }) => key));
  const versions = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const isKept = (word: string) =>
    packages.some(({ key, name }) => word === name || key === word || key.startsWith(`${word}_`));
  const isUsed = (specifier: string) => versions.has(specifier.match(/^npm:\/?(@?[^@]+@[^/]+)/)?.[1] ?? "");
  await edit("deno.json", ({ imports }) => {
    for (const name of Object.keys(imports)) if (!isUsed(imports[name])) delete imports[name];
    Object.assign(imports, Object.fromEntries(bundled));
  });
  await edit("deno.lock", ({ specifiers, npm, workspace }) => {
    for (const specifier of Object.keys(specifiers)) if (!isUsed(specifier)) delete specifiers[specifier];
    for (const key of Object.keys(npm)) if (!keys.has(key)) delete npm[key];
    for (const entry of Object.values(npm)) {
      entry.optionalDependencies &&= entry.optionalDependencies.filter((word) => isKept(word));
    }
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
  const { success, stderr } = await new Deno.Command(program, {
    args,
    cwd,
    env: { NO_COLOR: "1", ...env },
    stdout: "null",
  }).output();
  if (!success) {
    throw new BuildError(`deno ${args[0]} failed${reason(decode(stderr))}${hint && `\n  ${hint}`}`);
  }
}
