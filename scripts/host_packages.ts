/** npm packages that the host program loads: the imports of its sources and what these depend on. */

/** Sources that main.ts and its worker load. */
export const HOST_ROOTS = [
  "main.ts",
  "cmd/all.ts",
  "lib/ledger/worker.ts",
  "lib/ledger/read/rest_worker.ts",
  "lib/machine/live/worker.ts",
  "lib/base/confine/launcher_worker.ts",
];

/** One package as `deno info` names it. */
export interface HostPackage {
  /** key of deno.lock: `name@version`, with the versions of peers behind it */
  key: string;
  name: string;
  version: string;
  /** keys of packages */
  dependencies: string[];
}

/** One module as `deno info` names it. */
export interface HostModule {
  kind?: string;
  npmPackage?: string;
  /** file of a module of ours */
  local?: string;
  /** specifiers as they are written, and their targets where code needs them */
  dependencies?: { specifier: string; code?: { specifier?: string } }[];
}

interface Info {
  modules: HostModule[];
  npmPackages: Record<string, { name: string; version: string; dependencies: string[] }>;
}

/**
 * Lists the packages below the sources' imports, sorted by key; native packages of other systems included.
 *
 * @param root folder of the sources
 * @param sources files in it; default: the program's roots
 */
export async function hostPackages(root: string, sources = HOST_ROOTS): Promise<HostPackage[]> {
  const found = new Map<string, HostPackage>();
  for (const source of sources) {
    const { modules, npmPackages } = await inspect(root, source);
    const waiting = modules.flatMap(({ npmPackage }) => npmPackage ?? []);
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      if (found.has(key)) continue;
      const { name, version, dependencies } = npmPackages[key];
      found.set(key, { key, name, version, dependencies });
      waiting.push(...dependencies);
    }
  }
  return [...found.values()].sort((a, b) => a.key < b.key ? -1 : 1);
}

/** Modules of ours that the program loads. */
export async function hostModules(root: string): Promise<HostModule[]> {
  return (await Promise.all(HOST_ROOTS.map((source) => inspect(root, source)))).flatMap(({ modules }) =>
    modules
  );
}

const inspected = new Map<string, Promise<Info>>();

/** The answer of `deno info`, asked once for each source: a build needs its modules and its packages. */
function inspect(root: string, source: string): Promise<Info> {
  const path = `${root}/${source}`;
  const known = inspected.get(path) ?? ask(root, source);
  inspected.set(path, known);
  return known;
}

async function ask(root: string, source: string): Promise<Info> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", source],
    cwd: root,
    env: { NO_COLOR: "1" },
  }).output();
  if (!success) throw new Error(`deno info ${source}: ${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}
