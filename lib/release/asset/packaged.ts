import { parseJson } from "../../base/json/mod.ts";
import { ManifestOrigin } from "./schema.ts";

/** Where a package names the manifest that its installer fetches (docs/guides/packages.md). */
export const PACKAGED_ORIGIN = "/usr/share/sbx/manifest-origin.json";

/**
 * Finds a package's facts about the manifest at this address, for the record of its origin.
 *
 * @returns undefined where no package names this address
 */
export async function packagedOrigin(
  url: string,
  path = PACKAGED_ORIGIN,
): Promise<Pick<ManifestOrigin, "origin" | "packaged_at" | "package_version"> | undefined> {
  const text = await Deno.readTextFile(path).catch(() => undefined);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    return undefined;
  }
  const { data } = ManifestOrigin.safeParse(value);
  if (data?.origin !== "package" || data.source !== url) return undefined;
  const { origin, packaged_at, package_version } = data;
  return { origin, ...(packaged_at && { packaged_at }), ...(package_version && { package_version }) };
}
