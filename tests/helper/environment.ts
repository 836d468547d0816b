/** Environments for tests that boot none. */
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import {
  blobPath,
  type Environment,
  environmentKey,
  installEnvironment,
  makeWorkFolder,
  nameEnvironment,
} from "../../lib/release/environment/mod.ts";

/** A digest that begins with these hexadecimal digits. */
export function digestOf(letters: string): string {
  return `sha256:${letters.padEnd(64, "0")}`;
}

/** Installs an environment for `x86_64`, named `LETTER:1`, whose layers are there. */
export async function installFake(place: Home, letter: string, layers: string[]): Promise<Environment> {
  const work = await makeWorkFolder(place);
  for (const name of ["rootfs.erofs", "obom.cdx.json"]) await Deno.writeTextFile(join(work, name), letter);
  const digest = digestOf(letter);
  const reference = `docker.io/library/${letter}:1`;
  const environment: Environment = {
    schema: "sbx.environment.v1",
    key: environmentKey(digest, "x86_64"),
    ...{ arch: "x86_64", reference, digest, created_at: `2026-01-0${letter === "a" ? 1 : 2}T00:00:00.000Z` },
    config: { env: {} },
    rootfs: { hash: "0".repeat(64), size: 1 },
    obom: { hash: "0".repeat(64), size: 1 },
    provenance: {
      config_digest: digestOf(`${letter}c`),
      layers: layers.map((digest) => ({ digest, size: 1 })),
      ...{ builder: "sbx", puller: "test" },
    },
  };
  for (const layer of layers) {
    await Deno.mkdir(join(blobPath(place, layer), ".."), { recursive: true });
    await Deno.writeTextFile(blobPath(place, layer), "layer");
  }
  await installEnvironment(place, work, environment);
  await nameEnvironment(place, { reference, arch: "x86_64", key: environment.key });
  return environment;
}
