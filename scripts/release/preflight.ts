import { join } from "node:path";
import type { Options } from "./pipeline.ts";
import type { Runner } from "./runner.ts";

/** Programs that the stages need. */
const TOOLS = ["git", "make", "dpkg-deb", "lintian", "mmdebstrap", "mkfs.erofs", "npm", "patchelf"];

/**
 * Checks everything that would fail a release hours later: the tag and its commit, tools, signing keys.
 *
 * @throws {Error} names every problem
 */
export async function preflight(
  runner: Runner,
  { version, commit, releases, keys, aptKey }: Options,
): Promise<void> {
  const problems: string[] = [];
  const head = (await runner.read({ argv: ["git", "rev-parse", "HEAD"] })).trim();
  const changes = await runner.read({ argv: ["git", "status", "--porcelain"] });
  const config = await runner.read({ argv: ["git", "show", `v${version}:deno.json`] });
  if (!runner.isDry) {
    if (head !== commit) problems.push(`v${version} is ${commit}, and the checkout is at ${head}`);
    if (changes !== "") problems.push("the checkout has changes that are in no commit");
    const stated = JSON.parse(config).version;
    if (stated !== version) problems.push(`deno.json of v${version} says ${stated}`);
  }
  const tools = aptKey ? [...TOOLS, "gpg", "apt-ftparchive"] : TOOLS;
  for (const tool of tools) {
    if (!await runner.succeeds({ argv: ["sh", "-c", `command -v ${tool}`] })) {
      problems.push(`${tool} is not installed`);
    }
  }
  const folder = keys ?? join(releases, "keys");
  problems.push(...await keyProblems([join(folder, "hmac.keys"), ...aptKey ? [aptKey] : []]));
  const signing = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name).catch(() => []);
  const pems = signing.filter((name) => name.endsWith(".pem"));
  if (pems.length === 0) problems.push(`${folder} has no key NAME.pem; sbx-admin release init makes one`);
  problems.push(...await keyProblems(pems.map((name) => join(folder, name))));
  if (problems.length > 0) throw new Error(`preflight: ${problems.join("\npreflight: ")}`);
}

async function keyProblems(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map(async (path) => {
    const info = await Deno.stat(path).catch(() => undefined);
    if (!info?.isFile) return `the key ${path} is not there`;
    return info.mode! & 0o077 ? `others can read the key ${path}: chmod 600` : undefined;
  }));
  return found.filter((problem) => problem !== undefined);
}
