/** Routes of images, from which VMs boot. */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

const freed = {
  files: z.array(z.string()).describe("removed, by their names in the folder of assets"),
  bytes: z.int().describe("freed on the disk"),
};

export const RemovedImage = z.object({
  profile_id: z.string(),
  ...freed,
  without_image: z.array(z.string()).describe("profiles whose VMs cannot start now"),
  used_by: z.array(z.string()).describe(
    "VMs that run or are suspended with it, and keep its files until they stop",
  ),
}).openapi("ImageRemoved");
export type RemovedImage = z.infer<typeof RemovedImage>;

export const PrunedAssets = z.object(freed).openapi("AssetsPruned");
export type PrunedAssets = z.infer<typeof PrunedAssets>;

const tags = ["image"];

export const imageRoutes = {
  remove: createRoute({
    method: "delete",
    path: "/images/{profile}",
    tags,
    request: {
      params: z.object({ profile: z.string().openapi({ param: { name: "profile", in: "path" } }) }),
    },
    responses: answers("the image of that profile is removed", RemovedImage),
  }),
  prune: createRoute({
    method: "post",
    path: "/images/prune",
    tags,
    responses: answers("files of earlier releases, which nothing uses, are removed", PrunedAssets),
  }),
};
