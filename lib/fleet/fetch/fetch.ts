/**
 * Fetches packages of a registry by their hashes, and unpacks them where engines are
 * loaded from. No script of them runs.
 */
import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { ENGINE_PACKAGES, type EnginePackage } from "./lock.ts";

export const REGISTRY = "https://registry.npmjs.org";
/** Largest file of a package in `bytes`: ClickHouse has 180 MB. */
const FILE_MAX = 1024 * 1024 * 1024;
/** Longest time for a file in `ms`. */
const FETCH_MS = timeLimit(30 * 60_000);

export interface Fetched {
  name: string;
  version: string;
  /** it was there */
  isKnown: boolean;
}

/**
 * Packages of an engine on a platform.
 * @throws {SbxError} `fleet.engine.missing`: it has no program for it
 */
export function engineFiles(
  engine: EnginePackage["engine"],
  on = `${Deno.build.os}-${archOf()}`,
): EnginePackage[] {
  const own = ENGINE_PACKAGES.filter((each) =>
    each.engine === engine && (each.on === undefined || each.on === on)
  );
  if (own.some((each) => each.on === on)) return own;
  throw new SbxError("fleet.engine.missing", `${engine} has no program for ${on}`, {
    hint: "use a ClickHouse server (--clickhouse URL)",
  });
}

/** Processor as Node names it. */
function archOf(): string {
  return Deno.build.arch === "aarch64" ? "arm64" : "x64";
}

/**
 * Fetches packages.
 *
 * @param folder that gets `node_modules`
 * @param onPackage callback before each that is fetched
 * @throws {SbxError} `fleet.unavailable`; `fleet.engine.invalid`: other bytes than
 * the hash; nothing of it is kept
 */
export async function fetchEngine(
  packages: readonly EnginePackage[],
  folder: string,
  { registry = REGISTRY, onPackage }: { registry?: string; onPackage?: (name: string) => void } = {},
): Promise<Fetched[]> {
  const fetched: Fetched[] = [];
  for (const each of packages) {
    const { name, version } = each;
    const place = join(folder, "node_modules", name);
    const isKnown = await versionIn(place) === version;
    if (!isKnown) {
      onPackage?.(`${name} ${version}`);
      await fetchOne(each, place, registry);
    }
    fetched.push({ name, version, isKnown });
  }
  return fetched;
}

async function versionIn(place: string): Promise<string | undefined> {
  try {
    return JSON.parse(await Deno.readTextFile(join(place, "package.json"))).version;
  } catch {
    // A damaged package is fetched again.
    return undefined;
  }
}

async function fetchOne(
  { name, version, integrity }: EnginePackage,
  place: string,
  registry: string,
): Promise<void> {
  const base = registry.endsWith("/") ? registry : `${registry}/`;
  const url = new URL(`${name}/-/${basename(name)}-${version}.tgz`, base);
  await Deno.mkdir(dirname(place), { recursive: true, mode: 0o755 });
  const work = await Deno.makeTempDir({ dir: dirname(place), prefix: ".sbx-" });
  try {
    const file = join(work, "package.tgz");
    const found = await store(url, file);
    if (found !== integrity) {
      throw new SbxError(
        "fleet.engine.invalid",
        `${shownAddress(url.href)} is not ${name} ${version}: its hash differs`,
        {
          hint: "nothing of it was kept; check the registry or mirror (--registry URL)",
        },
      );
    }
    const to = join(work, "package");
    await Deno.mkdir(to, { mode: 0o755 });
    const { success, stderr } = await new Deno.Command("tar", {
      args: ["-xzf", file, "-C", to, "--strip-components=1", "--no-same-owner"],
      stdout: "null",
      stderr: "piped",
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin" },
    }).output();
    if (!success) {
      const said = new TextDecoder().decode(stderr).trim().slice(0, 300);
      throw new SbxError(
        "fleet.store.unavailable",
        `${name} cannot be unpacked in ${dirname(place)}: ${said}`,
        {
          hint: "free some space, or check the permissions of the folder",
        },
      );
    }
    await Deno.remove(place, { recursive: true }).catch(ignore("nothing to remove"));
    await Deno.rename(to, place);
  } finally {
    await Deno.remove(work, { recursive: true }).catch(
      ignore("a leftover takes room, and the next one another name"),
    );
  }
}

/** Writes the file at a URL. @returns its integrity */
async function store(url: URL, path: string): Promise<string> {
  const hash = createHash("sha512");
  const unavailable = (problem: string, cause?: unknown) =>
    new SbxError("fleet.unavailable", `${shownAddress(url.href)} cannot be fetched: ${problem}`, {
      cause,
      hint: "check the network, or name a mirror: --registry URL",
    });
  try {
    const response = await hostFetch(url, { signal: AbortSignal.timeout(FETCH_MS) });
    if (!response.ok) {
      await response.body?.cancel();
      throw unavailable(`status ${response.status}`);
    }
    using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
    let length = 0;
    for await (const chunk of response.body ?? []) {
      length += chunk.length;
      if (length > FILE_MAX) throw unavailable(`it has more than ${FILE_MAX} bytes`);
      hash.update(chunk);
      await writeAll(file, chunk);
    }
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw unavailable((cause as Error).message, cause);
  }
  return `sha512-${hash.digest("base64")}`;
}
