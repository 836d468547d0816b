/** The file of this program, and the program in a Debian package. */
import { outputOf } from "../../../base/spawn/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { dirname, resolve } from "node:path";
import { Digest } from "../../../base/hash/mod.ts";
import { writeAll } from "../../../base/wire/mod.ts";

/** Suffix that Linux adds to the path of a running program whose file was replaced. */
const REPLACED = / \(deleted\)$/;

/**
 * File of this program, with links resolved.
 *
 * @throws {SbxError} `update.program.source`: it runs from its sources
 */
export async function programPath(): Promise<string> {
  if (Deno.build.standalone) return await Deno.realPath(Deno.execPath().replace(REPLACED, ""));
  throw new SbxError("update.program.source", "this sbx runs from its sources, which no release replaces", {
    hint: "git pull updates them; make install puts a program into /usr/local/bin",
  });
}

/**
 * Refuses a program that a package manager owns: it would consider the file damaged, and restore its own.
 *
 * @throws {SbxError} `update.program.owned`
 */
export async function requireUnowned(path: string): Promise<void> {
  const command = new Deno.Command("dpkg-query", {
    args: ["--search", "--", path],
    env: { LC_ALL: "C" },
    stdin: "null",
    stderr: "null",
  });
  // Without dpkg, it belongs to no package.
  const { success, stdout } = await outputOf(command).catch(() => ({
    success: false,
    stdout: new Uint8Array(),
  }));
  if (!success) return;
  const owner = new TextDecoder().decode(stdout).split(":")[0];
  throw new SbxError("update.program.owned", `${path} belongs to the package "${owner}"`, {
    hint: `update it with its package manager: apt-get update && apt-get install --only-upgrade ${owner}`,
  });
}

/** Writes one member of a package to its standard output. */
const EXTRACT = 'dpkg-deb --fsys-tarfile "$1" | tar -xOf - ".$2"';

/**
 * Writes a file of a Debian package to `out`, executable, and synchronizes it with the disk.
 *
 * @param path absolute path that the package installs
 * @returns digests of the written bytes
 * @throws {SbxError} `update.program.failed`
 */
export async function extractProgram(
  deb: string,
  path: string,
  out: string,
): Promise<{ sha256: string; blake3: string; bytes: number }> {
  const command = new Deno.Command("bash", {
    args: ["-o", "pipefail", "-c", EXTRACT, "bash", deb, path],
    env: { LC_ALL: "C" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  await using child = command.spawn();
  const errors = new Response(child.stderr).text();
  const digest = new Digest();
  using file = await Deno.open(out, { write: true, createNew: true, mode: 0o700 });
  for await (const chunk of child.stdout) {
    digest.update(chunk);
    await writeAll(file, chunk);
  }
  const { success } = await child.status;
  if (!success) {
    throw new SbxError(
      "update.program.failed",
      `${path} cannot be taken from ${deb}: ${(await errors).trim()}`,
      {
        hint: "it needs dpkg-deb and tar: apt-get install dpkg tar",
      },
    );
  }
  await Deno.chmod(out, 0o755);
  await file.sync();
  const { blake3, sha256 } = digest.digest();
  return { blake3, sha256: sha256!, bytes: digest.size };
}

/** Lists one member of a package. */
const LIST = 'dpkg-deb --fsys-tarfile "$1" | tar -tvf - ".$2"';

/**
 * Finds where a path of a Debian package leads, if it is a symbolic link.
 *
 * @param path absolute path that the package installs
 * @returns an absolute path; undefined for anything else
 */
export async function linkTarget(deb: string, path: string): Promise<string | undefined> {
  const { stdout } = await new Deno.Command("bash", {
    args: ["-o", "pipefail", "-c", LIST, "bash", deb, path],
    env: { LC_ALL: "C" },
    stdin: "null",
    stderr: "null",
  }).output();
  const target = /^l.* -> (.+)$/m.exec(new TextDecoder().decode(stdout))?.[1];
  return target === undefined ? undefined : resolve(dirname(path), target);
}
