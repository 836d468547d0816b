/** Removal of everything that a home does not need any more: images, OCI images, templates and records. */
import type { Collected } from "../client/api/mod.ts";
import { listEnvironments } from "../release/environment/mod.ts";
import type { Home } from "../base/home/mod.ts";
import type { Images } from "./images.ts";
import type { RecordRoom } from "./record/room.ts";
import type { Templates } from "./vm/templates.ts";

/** Parts of the service that have something to remove. */
export interface GarbageParts {
  home: Home;
  images: Pick<Images, "isOwn" | "prune" | "collectEnvironments">;
  templates: Pick<Templates, "leftovers" | "clean">;
  room: Pick<RecordRoom, "plan" | "collect">;
}

/**
 * Removes files of earlier images, OCI images that no VM has and no profile names, templates that no machine
 * can start from, and records that are too old or take too much room.
 *
 * @param isDry only says which would go
 * @throws {SbxError} `environment.busy` (409): an OCI image is being made
 */
export async function collectGarbage(
  { home, images, templates, room }: GarbageParts,
  isDry: boolean,
): Promise<Collected> {
  const before = await listEnvironments(home);
  const plannedImages = images.isOwn ? await images.prune(0, true) : { files: [], bytes: 0 };
  const plannedOci = await images.collectEnvironments(true);
  const going = new Set([
    ...plannedImages.files,
    ...before.filter(({ reference }) => plannedOci.environments.includes(reference)).map(({ rootfs }) =>
      rootfs.hash
    ),
  ]);
  const leftovers = await templates.leftovers((nameOrHash) => going.has(nameOrHash));
  const freed = isDry || !images.isOwn ? plannedImages : await images.prune();
  const oci = isDry ? plannedOci : await images.collectEnvironments();
  if (!isDry) await templates.clean();
  const records = await (isDry ? room.plan(true) : room.collect(true));
  const sum = (all: { bytes: number }[]) => all.reduce((bytes, each) => bytes + each.bytes, 0);
  return {
    dry_run: isDry,
    bytes: freed.bytes + oci.bytes + sum(leftovers) + sum(records.removed),
    images: {
      ...freed,
      ...(!images.isOwn && { skipped: `${home.assetsDir} may hold images of other homes` }),
    },
    oci_images: { names: oci.environments, bytes: oci.bytes },
    templates: { ids: leftovers.map(({ id }) => id), bytes: sum(leftovers) },
    records,
  };
}
