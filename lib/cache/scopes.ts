/** The stores of a home, one for each scope. */
import { join } from "node:path";
import { ArtifactStore, SCOPE } from "./store.ts";

/** Artefacts of one registry in one store. */
export interface CacheUse {
  /** `home`, or `profile-ID` */
  scope: string;
  registry: string;
  artifacts: number;
  /** of the artefacts; two URLs may have one file */
  bytes: number;
  /** ISO 8601 */
  used_at: string;
}

/** The artefacts of a home by scope and registry, and the `bytes` of all files. */
export async function cacheUse(cacheDir: string): Promise<{ uses: CacheUse[]; bytes: number }> {
  const uses: CacheUse[] = [];
  let total = 0;
  for (const { scope, store } of await storesOf(cacheDir)) {
    total += await store.size();
    for (const [registry, all = []] of Map.groupBy(await store.list(), ({ registry }) => registry)) {
      uses.push({
        scope,
        registry,
        artifacts: all.length,
        bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
        used_at: new Date(all.reduce((last, { usedAt }) => Math.max(last, usedAt), 0)).toISOString(),
      });
    }
  }
  const order = ({ scope, registry }: CacheUse) => `${scope} ${registry}`;
  return { uses: uses.toSorted((a, b) => order(a) < order(b) ? -1 : 1), bytes: total };
}

/** Removes every artefact of a home. VMs go on, and download. @returns the removed artefacts */
export async function clearCache(cacheDir: string): Promise<{ artifacts: number; bytes: number }> {
  const { uses, bytes } = await cacheUse(cacheDir);
  for (const { store } of await storesOf(cacheDir)) await store.clear();
  return { artifacts: uses.reduce((sum, { artifacts }) => sum + artifacts, 0), bytes };
}

async function storesOf(cacheDir: string): Promise<{ scope: string; store: ArtifactStore }[]> {
  const entries = await Array.fromAsync(Deno.readDir(cacheDir)).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  });
  const scopes = entries.filter(({ name, isDirectory }) => isDirectory && SCOPE.test(name)).map(({ name }) =>
    name
  );
  return await Promise.all(
    scopes.map(async (scope) => ({
      scope,
      store: await ArtifactStore.open(join(cacheDir, scope), Infinity),
    })),
  );
}
