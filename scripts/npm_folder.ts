import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ignore } from "../lib/base/error/mod.ts";
import { text } from "./command.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CACHE = join(ROOT, ".deno/cache/npm/registry.npmjs.org");
/** Packages that Deno leaves out of its cache: natives of other systems. */
const OTHERS = join(ROOT, ".cache/npm");

/**
 * Folder with the files of a package of the lock; one that is not cached is fetched
 * by npm and verified by the lock.
 */
export async function npmFolder(name: string, version: string): Promise<string> {
  const [cached, other] = [CACHE, OTHERS].map((dir) => join(dir, name, version));
  for (const dir of [cached, other]) if (await isFile(join(dir, "package.json"))) return dir;
  await Deno.mkdir(dirname(other), { recursive: true });
  const work = await Deno.makeTempDir({ dir: dirname(other) });
  try {
    await text(["npm", "pack", "--silent", "--pack-destination", work, `${name}@${version}`], work);
    const [archive] = await Array.fromAsync(Deno.readDir(work), (entry) => join(work, entry.name));
    const digest = await crypto.subtle.digest("SHA-512", await Deno.readFile(archive));
    const { npm } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock")));
    const expected = npm[`${name}@${version}`]?.integrity;
    if (`sha512-${new Uint8Array(digest).toBase64()}` !== expected) {
      throw new Error(`${name}@${version} from npm is not the package of deno.lock: ${expected}`);
    }
    await text(["tar", "-xzf", archive], work);
    await Deno.rename(join(work, "package"), other).catch(ignore("another build was faster"));
  } finally {
    await Deno.remove(work, { recursive: true });
  }
  return other;
}

async function isFile(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isFile, () => false);
}
