/** Files of a VM for its shared folder, beside its record. */
import { join } from "node:path";
import type { LiveRecord, LiveShare } from "./schema.ts";

/** Folder of a VM with its files, and its workspace. */
interface LivePlaces {
  live: string;
  workspace: string;
}

/** Folder of the guest's repository, on its own disk: the host never reads it. */
export function guestGitDir({ name }: Pick<LiveRecord, "name">): string {
  return `/root/.sbx-live/${name}.git`;
}

/** How the folder of a record is shared, and the folder of the workspace in whose place the guest sees it. */
export function shareOf(
  { dir, name, top, is_repository, with_secrets }: LiveRecord,
  { live, workspace }: LivePlaces,
): { share: LiveShare; at: string } {
  return {
    share: {
      dir,
      top,
      ...is_repository && { gitfile: `gitdir: ${guestGitDir({ name })}\n` },
      withSecrets: with_secrets,
      made: join(live, "made"),
    },
    at: join(workspace, name),
  };
}

/**
 * Makes the files that a share needs before its VM starts. No guest may run
 * meanwhile: the workspace is the guest's.
 */
export async function prepareShare(record: LiveRecord, places: LivePlaces): Promise<void> {
  const { at } = shareOf(record, places);
  await Deno.mkdir(places.live, { recursive: true, mode: 0o700 });
  const found = await Deno.lstat(at).catch(() => undefined);
  // The folder is mounted on it: it must be a folder, never a link of the guest's.
  if (found?.isDirectory) return;
  if (found) await Deno.remove(at);
  await Deno.mkdir(at);
}
