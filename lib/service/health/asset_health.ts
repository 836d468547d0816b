/** True if a profile's VMs would boot: its files exist and match the manifest. */
import { type Assets, verifyAssets } from "../../release/asset/mod.ts";
import { currentArch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { bootAssets, type Profile } from "../../config/profile/mod.ts";
import { withDeadline } from "./probe.ts";

/** Longest wait for the hashes of an image, in `ms`; they are computed once, until the files are written. */
const HASH_MS = timeLimit(1000);

/**
 * The files that VMs of a profile boot from now. Files that take longer to hash pass here: the next check has
 * their hashes, and every boot waits for them.
 *
 * @throws {SbxError} as `bootAssets`; `assets.mismatch`
 */
export async function requireAssets(home: Home, profile: Profile): Promise<Assets> {
  const assets = await bootAssets(home, profile, currentArch());
  await withDeadline(verifyAssets(assets), HASH_MS).catch((error) => {
    if (!(error instanceof SbxError) || error.code !== "status.timeout") throw error;
  });
  return assets;
}
