/** Packages of Python, by a lock with hashes. */
import { join } from "node:path";
import { ifFound, SbxError } from "../../../base/error/mod.ts";
import type { Arch } from "../../../base/arch/mod.ts";
import { hostEnvironment } from "../../../base/proxy/mod.ts";
import type { Packages, Suite } from "../../../config/profile/mod.ts";
import { requireTools, run } from "../command.ts";
import type { OwnPackage } from "./component.ts";
import type { OwnFiles } from "./file.ts";

/** Python and the C library of a guest: wheels for later ones do not run there. */
const PYTHON: Record<Suite, { version: string; glibc: number }> = {
  bookworm: { version: "3.11", glibc: 36 },
  trixie: { version: "3.13", glibc: 41 },
};
/** Oldest minor version of the C library that a wheel names (PEP 600). */
const GLIBC_FIRST = 5;
const MACHINE: Record<Arch, string> = { x86_64: "x86_64", arm64: "aarch64" };

/**
 * A line of a lock: name, extras, version, marker and hashes. Options, addresses and paths are refused: by
 * them pip takes sources, and runs their programs on this machine. A marker has none of the blanks, variables
 * and options that pip would find in it.
 */
const LOCKED =
  /^([A-Za-z0-9][\w.-]*)(\[[\w., -]+\])? *== *[A-Za-z0-9][\w.!+]* *(;(?: (?!-)|[!"%-~])*?)?(( +--hash=sha256:[0-9a-f]{64})+)$/;

/**
 * Reads a lock of exact versions with hashes, and nothing else. pip gets these lines rather than the file,
 * whose ends of lines, comments and coding it reads by rules of its own.
 *
 * @throws {SbxError} `image.pip.lock`
 */
export function requireLocked(text: string, file: string): string[] {
  const lines = text.replaceAll("\r\n", "\n").replace(/\\\n/g, " ").split("\n");
  const locked: string[] = [];
  for (const [at, line] of lines.entries()) {
    const word = line.replace(/(^|\s)#.*$/, "").replaceAll("\t", " ").trim();
    if (word === "") continue;
    if (LOCKED.test(word)) {
      locked.push(word);
      continue;
    }
    const nth = lines.length === text.split("\n").length ? ` (line ${at + 1})` : "";
    throw new SbxError(
      "image.pip.lock",
      `${file} has "${word.slice(0, 80)}"${nth}, which is not an exact version with its SHA-256`,
      { hint: "pip-compile --generate-hashes, or uv pip compile --generate-hashes, writes such a file" },
    );
  }
  return locked;
}

/** What pip reports of an installation (PyPA, "Installation report"). */
interface Report {
  install: {
    download_info: { archive_info?: { hashes?: Record<string, string>; hash?: string } };
    metadata: { name: string; version: string; license?: string; license_expression?: string };
  }[];
}

/**
 * Installs the packages of a lock below `overlay`, as wheels: no program of a package runs on this machine.
 *
 * @throws {SbxError} `image.pip.lock`, `image.pip.version`, `image.file.*`, `image.tool_failed`
 */
export async function installPip(
  { pip, suite }: Pick<Packages, "pip" | "suite">,
  arch: Arch,
  own: OwnFiles,
  { work, overlay, signal }: { work: string; overlay: string; signal?: AbortSignal },
): Promise<OwnPackage[]> {
  if (!pip) return [];
  const { text } = await own.text(pip.lock);
  const path = join(work, "lock.txt");
  await Deno.writeTextFile(path, requireLocked(text, pip.lock.file).join("\n") + "\n");
  await requireTools({ python3: "python3" });
  const python = await pythonWithPip();
  const { version, glibc } = PYTHON[suite];
  const target = join(work, "target"), report = join(work, "report.json");
  const machine = MACHINE[arch];
  const platforms = Array.from({ length: glibc - GLIBC_FIRST + 1 }, (_, at) => `manylinux_2_${glibc - at}`);
  const options = [
    ...[...platforms, "manylinux2014", "manylinux2010", "manylinux1", "linux"].map((each) =>
      `--platform=${each}_${machine}`
    ),
    ...["--implementation=cp", `--python-version=${version}`, "--only-binary=:all:", "--require-hashes"],
    ...["--no-compile", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"],
    ...["--ignore-installed", "--quiet", `--target=${target}`, `--report=${report}`, `--requirement=${path}`],
    ...pip.index ? ["--isolated", `--index-url=${pip.index}`] : [],
  ];
  await run([python, "-m", "pip", "install", ...options], {
    doing: `installing ${pip.lock.file}`,
    cwd: work,
    env: await hostEnvironment(),
    signal,
    hint: "check that the index is reachable, and has a wheel of each version for this guest: " +
      "sources are not built",
  });
  const library = join(overlay, "usr/local/lib", `python${version}`);
  await Deno.mkdir(library, { recursive: true });
  await placePrograms(join(target, "bin"), join(overlay, "usr/local/bin"));
  await Deno.rename(target, join(library, "dist-packages"));
  return packagesOf(JSON.parse(await Deno.readTextFile(report)));
}

/** A Python with pip: this machine's own where another one comes first on the path. */
async function pythonWithPip(): Promise<string> {
  for (const python of ["/usr/bin/python3", "python3"]) {
    const has = await new Deno.Command(python, {
      args: ["-m", "pip", "--version"],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).output().then(({ success }) => success, () => false);
    if (has) return python;
  }
  throw new SbxError("image.tool_missing", "packages.pip needs pip, not found on this machine", {
    hint: "install it: apt-get install python3-pip",
  });
}

/** Moves programs, which begin with the path of this machine's Python. */
async function placePrograms(from: string, to: string): Promise<void> {
  const entries = await ifFound(Array.fromAsync(Deno.readDir(from))) ?? [];
  if (entries.length === 0) return;
  await Deno.mkdir(to, { recursive: true });
  for (const { name, isFile } of entries) {
    if (!isFile) continue;
    const bytes = await Deno.readFile(join(from, name));
    const end = bytes.indexOf("\n".charCodeAt(0));
    const isPython = /^#!.*python[\d.]*\s*$/.test(
      new TextDecoder().decode(bytes.subarray(0, Math.max(end, 0))),
    );
    const placed = isPython
      ? new Uint8Array([...new TextEncoder().encode("#!/usr/bin/python3"), ...bytes.subarray(end)])
      : bytes;
    await Deno.writeFile(join(to, name), placed, { mode: 0o755 });
  }
  await Deno.remove(from, { recursive: true });
}

function packagesOf({ install }: Report): OwnPackage[] {
  return install.map(({ download_info, metadata }): OwnPackage => {
    const { hashes, hash } = download_info.archive_info ?? {};
    const sha256 = hashes?.sha256 ?? hash?.replace(/^sha256=/, "") ?? "";
    const { name, version } = metadata;
    if (!/^[0-9a-f]{64}$/.test(sha256)) {
      throw new SbxError("image.pip.lock", `pip names no SHA-256 of ${name}`, {
        hint: "pip 22.2 or newer reports it",
      });
    }
    const license = metadata.license_expression ?? metadata.license;
    return {
      kind: "pip",
      name: name.toLowerCase().replace(/[-_.]+/g, "-"),
      version,
      hash: `sha256:${sha256}`,
      ...(license && license.length < 100 && !license.includes("\n") && { license }),
    };
  }).sort((a, b) => a.name < b.name ? -1 : 1);
}
