/** Active bundles, verified at each read, so that a changed file has no effect. */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type CorpConfig, loadCorp, readCorpFile } from "../../config/corp/mod.ts";
import {
  fetchRecords,
  findKeyFiles,
  INDEX_NAME,
  readReleaseKeys,
  verifyManifest,
} from "../../release/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import { type BundleFiles, CORP_NAME } from "./document.ts";
import { type Active, CONTENT, damaged, FILES, MANIFEST, writeFiles } from "./files.ts";
import { joinCorp } from "./merge.ts";
import { bundlePaths } from "./paths.ts";
import { entryOf, openBundle } from "./verify.ts";

/**
 * Verifies an installed bundle and joins it with corp.toml.
 *
 * @returns the configuration, and the bundle's entries that the machine's own corp.toml overrides
 * @throws {SbxError} `release.…`, `bundle.…`, `corp.invalid`
 */
export async function applyBundle(
  home: Pick<Home, "dir">,
  own: CorpConfig,
  { url, channel, version }: Pick<Active, "url" | "channel" | "version">,
): Promise<{ config: CorpConfig; held: string[] }> {
  const folder = bundlePaths(home).version(version);
  const read = async (name: string) => {
    try {
      return await Deno.readFile(join(folder, name));
    } catch (cause) {
      throw damaged(join(folder, name), cause);
    }
  };
  const keys = await readReleaseKeys(await findKeyFiles({ release: own.file.release, path: own.path }));
  const { records } = await fetchRecords(
    new URL(url),
    channel,
    keys,
    (address) => read(address.pathname.endsWith(".dsse") ? `${INDEX_NAME}.dsse` : INDEX_NAME),
  );
  const record = records.find((each) => each.version === version);
  if (!record) throw damaged(folder);
  const manifest = verifyManifest(await read(MANIFEST), record, channel, keys.hmac);
  const entry = entryOf(manifest);
  const files = openBundle(await read(CONTENT), entry);
  const { text, held } = joinCorp(own, await parseCorp(files, entry.name));
  const place = join(folder, FILES);
  await writeFiles(place, { ...files, [CORP_NAME]: text });
  const config = await loadCorp(join(place, CORP_NAME));
  return { config: { ...config, bundle: { channel, version, blake3: entry.blake3 } }, held };
}

/** Reads the corp.toml of a bundle. @throws {SbxError} `bundle.invalid` */
export async function parseCorp(files: BundleFiles, name: string): Promise<CorpConfig> {
  const path = `${name}:${CORP_NAME}`;
  try {
    const document = parseToml(files[CORP_NAME], path);
    return { file: await readCorpFile(document, "bundle.invalid"), document, path };
  } catch (cause) {
    throw new SbxError("bundle.invalid", (cause as Error).message, { cause });
  }
}
