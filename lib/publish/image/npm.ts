/** Packages of npm in a guest image, at exact versions. */
import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { dirname, join, normalize } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { hostEnvironment } from "../../base/proxy/mod.ts";
import type { Packages } from "../../config/profile/mod.ts";
import { archNames } from "./arch.ts";
import { requireTools, run } from "./command.ts";

/** Where the guest has npm's packages, and links to their programs: npm's own global prefix. */
const PREFIX = "usr/local";
const MODULES = `${PREFIX}/lib/node_modules`;
const PROGRAMS = `${PREFIX}/bin`;

/** In a profile's names: npm's word for the architecture, x64 or arm64. */
const CPU = "{cpu}";

/** Folder of packages, in the paths of npm's lock. */
const FOLDER = "node_modules/";

/** Name and exact version of a package. */
const EXACT = /^(@?[^@]+)@(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$/;

/**
 * Where node-gyp of every user of the guest looks for the headers of a Node before it downloads
 * them, and its variable for that: the one that npm sets from a package's `config`, which npm
 * itself takes without a warning.
 */
const HEADERS = "usr/local/share/node-gyp";
const HEADERS_VARIABLE = "npm_package_config_node_gyp_devdir";
/**
 * Sets that variable in login shells, which have their own environment; other programs get it from the
 * guest's agent.
 */
const LOGIN_SCRIPT = "etc/profile.d/node-gyp.sh";

/**
 * npm's configuration in the guest: a Node that is linked into the prefix would
 * make its own folder the prefix.
 */
const NPMRC = `prefix=/${PREFIX}\nupdate-notifier=false\nfund=false\naudit=false\n`;

/** A package as it was installed. */
export interface LockedPackage {
  name: string;
  version: string;
  /** as npm writes it: `sha512-<base64>` */
  integrity: string;
  license?: string;
  /** `name@version` of the packages that it depends on */
  dependencies?: string[];
}

/** Refuses a package without an exact version, which would not be the same in two builds. */
export function requireExact(names: string[]): void {
  const loose = names.find((name) => !EXACT.test(name));
  if (loose === undefined) return;
  throw new SbxError("image.npm.version", `the npm package "${loose}" has no exact version`, {
    hint: "write NAME@1.2.3 in packages.npm of the profile; npm view NAME version shows the newest",
  });
}

/**
 * Installs npm packages of a profile below `overlay`, with links to their programs on the guest's PATH.
 * Everything that is installed has an integrity hash in npm's lock, checked by npm; packages in npm's cache
 * are not downloaded again. No script of a package runs on this host: `bin` names programs that such a script
 * would have put in place.
 *
 * @param work folder for npm to work in
 * @throws {SbxError} `image.npm.version`, `image.npm.program`, `image.npm.integrity`, `image.tool_failed`
 */
export async function installNpm(
  { npm, bin }: Pick<Packages, "npm" | "bin">,
  arch: Arch,
  { work, overlay, signal }: { work: string; overlay: string; signal?: AbortSignal },
): Promise<LockedPackage[]> {
  if (npm.length === 0) return [];
  requireExact(npm);
  await requireTools({ npm: "npm" });
  const cpu = archNames(arch).npm;
  const dependencies = Object.fromEntries(npm.map((text) => {
    const [, name, version] = EXACT.exec(text.replace(CPU, cpu))!;
    return [name, version];
  }));
  await Deno.mkdir(work, { recursive: true });
  await Deno.writeTextFile(join(work, "package.json"), JSON.stringify({ private: true, dependencies }));
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  options.push("--prefer-offline", "--omit=dev", "--os=linux", `--cpu=${cpu}`, "--libc=glibc");
  // A package for one processor alone is otherwise refused on a machine with another.
  if (arch !== currentArch()) options.push("--force");
  // `npm ci` refuses a lock without the optional packages that a registry, such as a
  // company's mirror, does not have.
  await run(["npm", "install", ...options], {
    doing: "installing npm packages",
    cwd: work,
    env: await hostEnvironment(),
    signal,
    hint: "check that npm's registry is reachable and has these versions: npm view NAME versions",
  });
  const modules = join(work, "node_modules");
  const locked = await readLock(join(modules, ".package-lock.json"));
  const links = { ...await declaredPrograms(modules, Object.keys(dependencies)), ...bin };
  await linkPrograms(modules, join(overlay, PROGRAMS), links, cpu);
  if (dependencies.npm) await Deno.writeTextFile(join(modules, "npm/npmrc"), NPMRC);
  await ifFound(Deno.remove(join(modules, ".bin"), { recursive: true }));
  await Deno.mkdir(join(overlay, PREFIX, "lib"), { recursive: true });
  await placeHeaders(modules, overlay, `node-linux-${cpu}`);
  await Deno.rename(modules, join(overlay, MODULES));
  return locked;
}

/**
 * Puts the headers that Node's package has where node-gyp looks before it downloads them. By
 * version: the variable npm_config_nodedir would give them to every other Node too, and npm
 * 12 warns of it at each command.
 */
async function placeHeaders(modules: string, overlay: string, node: string): Promise<void> {
  const read = async (path: string) =>
    JSON.parse(await Deno.readTextFile(join(modules, path, "package.json")).catch(() => "{}"));
  const [{ version }, { installVersion }] = await Promise.all([
    read(node),
    read("npm/node_modules/node-gyp"),
  ]);
  const hasHeaders = await Deno.stat(join(modules, node, "include/node/node.h")).then(
    () => true,
    () => false,
  );
  if (!hasHeaders || installVersion === undefined) return;
  const headers = join(overlay, HEADERS, version);
  await Deno.mkdir(headers, { recursive: true });
  await Deno.symlink(`/${MODULES}/${node}/include`, join(headers, "include"));
  await Deno.writeTextFile(join(headers, "installVersion"), `${installVersion}\n`);
  const script = join(overlay, LOGIN_SCRIPT);
  await Deno.mkdir(dirname(script), { recursive: true });
  await Deno.writeTextFile(script, `export ${HEADERS_VARIABLE}=/${HEADERS}\n`);
}

/** Reads npm's record of the installed packages. @throws {SbxError} `image.npm.integrity` */
async function readLock(path: string): Promise<LockedPackage[]> {
  const packages: Record<string, LockEntry> = JSON.parse(await Deno.readTextFile(path)).packages;
  const locked = Object.entries(packages).flatMap(([folder, entry]) => {
    // A package's bundled dependencies are covered by its own hash.
    if (entry.inBundle) return [];
    const name = nameOf(folder, entry);
    const { version, integrity, license } = entry;
    if (!version || !integrity?.startsWith("sha512-")) {
      throw new SbxError("image.npm.integrity", `the npm registry has no SHA-512 of ${name}`, {
        hint: "take packages that the registry publishes with integrity hashes",
      });
    }
    const dependencies = dependenciesOf(folder, packages);
    return [{ name, version, integrity, ...(typeof license === "string" && { license }), dependencies }];
  });
  return locked.sort((a, b) => keyOf(a) < keyOf(b) ? -1 : 1);
}

/** One package of npm's lock. */
interface LockEntry {
  name?: string;
  version?: string;
  integrity?: string;
  license?: unknown;
  inBundle?: boolean;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

function nameOf(folder: string, { name }: LockEntry): string {
  return name ?? folder.slice(folder.lastIndexOf(FOLDER) + FOLDER.length);
}

/**
 * Dependencies of a package: each name is resolved in its own folder, then in the ones around it, as Node
 * does.
 */
function dependenciesOf(folder: string, packages: Record<string, LockEntry>): string[] {
  const { dependencies, optionalDependencies } = packages[folder];
  const keys = Object.keys({ ...dependencies, ...optionalDependencies }).flatMap((name) => {
    for (let around = folder;;) {
      const entry = packages[`${around}${around && "/"}${FOLDER}${name}`];
      if (entry?.version) {
        return entry.inBundle
          ? []
          : [keyOf({ name: nameOf(`${FOLDER}${name}`, entry), version: entry.version })];
      }
      if (around === "") return [];
      around = around.slice(0, Math.max(0, around.lastIndexOf(`/${FOLDER}`)));
    }
  });
  return [...new Set(keys)].sort();
}

/** `name@version` of a package. */
export function keyOf({ name, version }: Pick<LockedPackage, "name" | "version">): string {
  return `${name}@${version}`;
}

/** Programs that packages declare in `bin`, as paths in node_modules. */
async function declaredPrograms(modules: string, names: string[]): Promise<Record<string, string>> {
  const programs: Record<string, string> = {};
  for (const name of names) {
    const { bin } = JSON.parse(await Deno.readTextFile(join(modules, name, "package.json")));
    const declared: Record<string, unknown> = typeof bin === "string"
      ? { [name.replace(/^@[^/]*\//, "")]: bin }
      : bin ?? {};
    for (const [program, path] of Object.entries(declared)) programs[program] = `${name}/${path}`;
  }
  return programs;
}

/**
 * Links programs into the guest's PATH.
 * @throws {SbxError} `image.npm.program`: one is not in the packages
 */
async function linkPrograms(modules: string, dir: string, links: Record<string, string>, cpu: string) {
  await Deno.mkdir(dir, { recursive: true });
  for (const [name, path] of Object.entries(links)) {
    const file = normalize(path.replaceAll(CPU, cpu));
    const info = await Deno.lstat(join(modules, file)).catch(() => null);
    if (!/^\w[\w.-]*$/.test(name) || file.startsWith("..") || !info?.isFile) {
      throw new SbxError("image.npm.program", `the program ${name} is not in the npm packages at ${file}`, {
        hint: "correct packages.bin of the profile: paths are below node_modules",
      });
    }
    await Deno.chmod(join(modules, file), 0o755);
    await Deno.symlink(`../lib/node_modules/${file}`, join(dir, name));
  }
}
