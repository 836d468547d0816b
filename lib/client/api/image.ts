/** Routes of images, from which VMs boot. */
import { createRoute, z } from "@hono/zod-openapi";
import { ARCHES } from "../../base/arch/mod.ts";
import { Environment, EnvironmentConfig } from "../../release/environment/schema.ts";
import { answers } from "./common.ts";

const freed = {
  files: z.array(z.string()).describe("names of the removed files, in the folder of assets"),
  bytes: z.int().describe("space freed on the disk"),
};

export const RemovedImage = z.object({
  profile_id: z.string(),
  ...freed,
  without_image: z.array(z.string()).describe("profiles whose VMs cannot start now"),
  used_by: z.array(z.string()).describe(
    "VMs that run or are suspended with the image; they keep its files until they stop",
  ),
}).openapi("ImageRemoved");
export type RemovedImage = z.infer<typeof RemovedImage>;

export const PrunedAssets = z.object(freed).openapi("AssetsPruned");
export type PrunedAssets = z.infer<typeof PrunedAssets>;

export const ListedEnvironment = z.object({
  key: z.string(),
  references: z.array(z.string()).describe("references that lead to this image now"),
  digest: z.string().describe("digest of the image's manifest"),
  arch: z.enum(ARCHES),
  created_at: z.iso.datetime(),
  bytes: z.int().describe("space on the disk, without layers that images share"),
  used_by: z.array(z.string()).describe("names of VMs that have this image, or can go back to it"),
  profiles: z.array(z.string()).describe("profiles that name this image"),
  config: EnvironmentConfig.describe("configuration of the image"),
  signatures: Environment.shape.provenance.shape.signatures.describe(
    "signatures that were verified when the image was pulled",
  ),
}).openapi("Environment");
export type ListedEnvironment = z.infer<typeof ListedEnvironment>;
export const EnvironmentList = z.object({
  environments: z.array(ListedEnvironment),
  layer_bytes: z.int().describe("space of the layers, which images share"),
}).openapi("EnvironmentList");
export type EnvironmentList = z.infer<typeof EnvironmentList>;

export const FreedEnvironments = z.object({
  environments: z.array(z.string()).describe("references of the images that were removed"),
  bytes: z.int().describe("space freed on the disk, unused layers included"),
}).openapi("EnvironmentsFreed");
export type FreedEnvironments = z.infer<typeof FreedEnvironments>;

export const ImageList = z.object({
  images: z.array(z.object({
    profile_id: z.string(),
    name: z.string().optional().describe("name of the profile"),
    image: z.string().optional().describe(
      'id of the profile whose image it uses; "pinned": files that the profile names',
    ),
    version: z.string().optional(),
    suite: z.string().optional().describe("Debian release of the image"),
    packages: z.array(z.string()).optional().describe("packages added to the base image"),
    bytes: z.int().optional().describe("size of the root file system"),
    total_bytes: z.int().optional().describe("size of all files that a VM boots from"),
    installed_at: z.iso.datetime().optional(),
    obom: z.boolean().optional().describe("GET /profiles/{id}/obom has the list of its packages"),
    problem: z.string().optional().describe("why the profile has no image, with the remedy"),
    used_by: z.array(z.string()).describe("names of VMs of the profile"),
  })),
}).openapi("ImageList");
export type ImageList = z.infer<typeof ImageList>;

const tags = ["image"];

export const imageRoutes = {
  list: createRoute({
    method: "get",
    path: "/images/list",
    tags,
    responses: answers("the image of each profile", ImageList),
  }),
  remove: createRoute({
    method: "delete",
    path: "/images/{profile}",
    tags,
    request: {
      params: z.object({ profile: z.string().openapi({ param: { name: "profile", in: "path" } }) }),
    },
    responses: answers("the removed image", RemovedImage),
  }),
  environments: createRoute({
    method: "get",
    path: "/environments",
    tags,
    responses: answers("OCI images of this home, the newest first", EnvironmentList),
  }),
  removeEnvironment: createRoute({
    method: "delete",
    path: "/environments",
    tags,
    request: { query: z.object({ image: z.string().max(1024).describe("reference, or key") }) },
    responses: answers("the removed OCI image", FreedEnvironments),
  }),
  collectEnvironments: createRoute({
    method: "post",
    path: "/environments/gc",
    tags,
    responses: answers("the removed OCI images, which no VM has and no profile names", FreedEnvironments),
  }),
  prune: createRoute({
    method: "post",
    path: "/images/prune",
    tags,
    responses: answers("the removed files of earlier releases, which nothing used", PrunedAssets),
  }),
};
