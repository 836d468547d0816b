/** Files of an image, for a test that gives them to another user. */
import { join } from "node:path";

/** The files of a folder of assets that its manifest names, and the manifests. */
export function assetFiles(dir: string): string[] {
  const manifest = Deno.readTextFileSync(join(dir, "manifest.json"));
  return Array.from(Deno.readDirSync(dir), ({ name }) => name).filter((name) => {
    const hash = /-([0-9a-f]{16})/.exec(name)?.[1];
    return hash === undefined ? name.startsWith("manifest") : manifest.includes(`"hash": "${hash}`);
  }).map((name) => join(dir, name));
}
