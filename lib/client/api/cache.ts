/** Routes of the shared cache. */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

export const CacheInfo = z.object({
  enabled: z.boolean().describe("VMs of profiles with `[cache]` use it from their next start"),
  bytes: z.int().describe("size of all files"),
  max_bytes: z.int().describe("limit of each scope"),
  uses: z.array(z.object({
    scope: z.string().describe("`home`, or `profile-ID`"),
    registry: z.string(),
    artifacts: z.int(),
    bytes: z.int().describe("size of the artefacts; two URLs may have one file"),
    used_at: z.iso.datetime().describe("last use of any of them"),
  })),
}).openapi("Cache");
export type CacheInfo = z.infer<typeof CacheInfo>;

export const ClearedCache = z.object({ artifacts: z.int(), bytes: z.int() }).openapi("CacheCleared");
export type ClearedCache = z.infer<typeof ClearedCache>;

const tags = ["cache"];

export const cacheRoutes = {
  info: createRoute({
    method: "get",
    path: "/cache",
    tags,
    responses: answers("artefacts of the shared cache, by scope and registry", CacheInfo),
  }),
  clear: createRoute({
    method: "delete",
    path: "/cache",
    tags,
    responses: answers("every artefact is removed; VMs go on, and download", ClearedCache),
  }),
};
