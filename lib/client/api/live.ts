/** A folder of the host in a VM (docs/guides/live.md). */
import { z } from "@hono/zod-openapi";

export const LiveRequest = z.strictObject({
  dir: z.string().max(4096).describe("absolute path of a folder of this host"),
  with_secrets: z.boolean().optional().describe("the guest sees files that look like secrets too"),
}).describe("a folder of the host that the guest gets read-write, with masks");

export const LiveInfo = z.object({
  dir: z.string().describe("folder of the host"),
  place: z.string().describe("folder in the guest"),
  is_repository: z.boolean(),
}).describe("absent: the guest has no folder of the host");
