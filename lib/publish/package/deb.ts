/** Debian packages: their files, and the tools that build them. */
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { outputOf } from "../../base/spawn/mod.ts";

/** Debian's packages of the tools that make packages and repositories. */
const PACKAGES: Record<string, string> = {
  "dpkg-deb": "dpkg",
  "apt-ftparchive": "apt-utils",
  gpg: "gnupg",
  rpmbuild: "rpm",
  xz: "xz-utils",
};

/** Options of {@linkcode runTool}. */
interface ToolOptions {
  /** purpose, as the start of an error message: "building sbx_1.0.0_amd64.deb" */
  doing: string;
  cwd?: string;
  env?: Record<string, string>;
}

/**
 * Runs a tool in a fixed locale and time zone, and returns its standard output.
 *
 * @throws {SbxError} `package.tool_missing`, `package.tool_failed`
 */
export async function runTool(
  [tool, ...args]: [string, ...string[]],
  { doing, cwd, env }: ToolOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const command = new Deno.Command(tool, {
    args,
    cwd,
    env: { LC_ALL: "C.UTF-8", TZ: "UTC", ...env },
    stdin: "null",
  });
  const { success, code, stdout, stderr } = await outputOf(command).catch((cause) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("package.tool_missing", `${doing} needs ${tool}, which this machine does not have`, {
      hint: `apt-get install ${PACKAGES[tool] ?? tool}`,
      cause,
    });
  });
  if (success) return stdout;
  const errors = new TextDecoder().decode(stderr).trim();
  throw new SbxError(
    "package.tool_failed",
    `${doing} failed: ${tool} exited with ${code}: ${errors.split("\n")[0]}`,
    { cause: errors, hint: "read the tool's output, fix the cause, and run this again" },
  );
}

/**
 * Runs each tool once, before any work.
 * @throws {SbxError} `package.tool_missing`: it names the package of Debian
 */
export async function requireTools(tools: readonly string[], doing: string): Promise<void> {
  // apt-ftparchive of bookworm has no --version alone: its help ends with 0 too.
  for (const tool of tools) {
    await runTool([tool, tool === "apt-ftparchive" ? "--help" : "--version"], { doing });
  }
}

/** Architectures of Debian that there are packages for. */
export type DebArch = "amd64" | "arm64" | "all";

/** A Debian package. */
export interface Deb {
  /** fields of the control file, in order, without `Installed-Size` */
  control: Record<string, string>;
  /** maintainer scripts by name */
  scripts?: Record<string, string>;
  /** paths below /etc that dpkg keeps when the administrator changed them */
  conffiles?: string[];
  files: PackageFile[];
  /** time of every file, in seconds since 1970 */
  sourceDateEpoch: number;
}

/** Level of xz: level 2 saves 10 % of sbx's package for three times the time. */
const XZ_LEVEL = 0;

/**
 * Builds a package with dpkg-deb. The same input gives the same bytes, whatever the umask,
 * locale, time or number of processors.
 *
 * @returns path of the package, `<out>/<name>_<version>_<arch>.deb`
 * @throws {SbxError} `package.tool_missing`, `package.tool_failed`, `package.file_missing`
 */
export async function writeDeb(
  { control, scripts = {}, conffiles = [], files, sourceDateEpoch }: Deb,
  out: string,
): Promise<string> {
  await Deno.mkdir(out, { recursive: true });
  const path = join(out, `${control.Package}_${control.Version}_${control.Architecture}.deb`);
  const work = await Deno.makeTempDir({ prefix: "sbx-deb-" });
  try {
    const root = join(work, "root");
    await writeTree(root, files, sourceDateEpoch);
    const meta: PackageFile[] = [
      { path: "DEBIAN/control", content: { text: controlText(control, await installedSize(root)) } },
      { path: "DEBIAN/md5sums", content: { text: await md5sums(root, files, conffiles) } },
      ...Object.entries(scripts).map(([name, text]) => ({
        path: `DEBIAN/${name}`,
        content: { text },
        mode: 0o755,
      })),
      ...conffiles.length
        ? [{ path: "DEBIAN/conffiles", content: { text: conffiles.map((path) => `${path}\n`).join("") } }]
        : [],
    ];
    await writeTree(root, meta, sourceDateEpoch);
    await runTool([
      "dpkg-deb",
      "--root-owner-group",
      "--threads-max=1",
      "-Zxz",
      `-z${XZ_LEVEL}`,
      "--build",
      root,
      path,
    ], { doing: `building ${path}`, env: { SOURCE_DATE_EPOCH: `${sourceDateEpoch}` } });
    await Deno.chmod(path, 0o644);
    return path;
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

function controlText(control: Record<string, string>, kibibytes: number): string {
  const fields = { ...control, "Installed-Size": `${kibibytes}` };
  // The description, which has several lines, is the last by custom.
  const { Description, ...others } = fields as Record<string, string>;
  return Object.entries({ ...others, Description }).map(([name, value]) => `${name}: ${value}\n`).join("");
}

/** Size in KiB as Debian counts it: files rounded up, one each for folders and links. */
async function installedSize(dir: string): Promise<number> {
  let total = 1;
  for await (const { name, isDirectory, isFile } of Deno.readDir(dir)) {
    const path = join(dir, name);
    if (isDirectory) total += await installedSize(path);
    else total += isFile ? Math.ceil((await Deno.stat(path)).size / 1024) : 1;
  }
  return total;
}

async function md5sums(root: string, files: readonly PackageFile[], conffiles: string[]): Promise<string> {
  const regular = files.filter(({ path, content }) =>
    !("linkTo" in content) && !conffiles.includes(`/${path}`)
  ).map(({ path }) => path).sort();
  const lines = await Promise.all(regular.map(async (path) => {
    const hash = createHash("md5");
    for await (const chunk of (await Deno.open(join(root, path))).readable) hash.update(chunk);
    return `${hash.digest("hex")}  ${path}\n`;
  }));
  return lines.join("");
}

/** Debian's form of a SemVer: a pre-release sorts before its release. */
export function debianVersion(version: string): string {
  return version.replace("-", "~").replaceAll("-", ".");
}

/** A file that a package installs; its folders come with it. */
export interface PackageFile {
  /** without a slash at the start */
  path: string;
  content: { text: string } | { bytes: Uint8Array } | { copyOf: string } | { linkTo: string };
  /** permission bits, default 0o644 */
  mode?: number;
}

/**
 * Writes files into a new folder, with modes that no umask changes, and the same time for all.
 *
 * @param seconds the time, since 1970
 * @throws {SbxError} `package.file_missing`
 */
export async function writeTree(root: string, files: readonly PackageFile[], seconds: number): Promise<void> {
  await Deno.mkdir(root, { recursive: true });
  for (const { path, content, mode = 0o644 } of files) {
    const target = join(root, path);
    await Deno.mkdir(dirname(target), { recursive: true });
    if ("linkTo" in content) {
      await Deno.symlink(content.linkTo, target);
      continue;
    }
    if ("text" in content) await Deno.writeTextFile(target, content.text);
    else if ("bytes" in content) await Deno.writeFile(target, content.bytes);
    else await copy(content.copyOf, target);
    await Deno.chmod(target, mode);
  }
  await settle(root, seconds);
}

async function copy(from: string, to: string): Promise<void> {
  try {
    await Deno.copyFile(from, to);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("package.file_missing", `the package needs ${from}, which is not there`, {
      cause,
      hint: "make build makes the program, make deb the rest",
    });
  }
}

/** Sets modes of folders and times, from the leaves up: writing into a folder changes its time. */
async function settle(path: string, seconds: number): Promise<void> {
  const { isDirectory, isSymlink } = await Deno.lstat(path);
  if (isSymlink) return; // its time is not stored: dpkg-deb caps it
  if (isDirectory) {
    for await (const { name } of Deno.readDir(path)) await settle(join(path, name), seconds);
    await Deno.chmod(path, 0o755);
  }
  await Deno.utime(path, seconds, seconds);
}
