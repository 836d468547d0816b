/** Routes of profiles (docs/design/contracts/04-profiles.md §4). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

const ProfileSummary = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  icon_svg: z.string().optional(),
  revision: z.string(),
  min_sbx_version: z.string().optional(),
  compatible: z.boolean(),
  source: z.enum(["builtin", "user"]),
  rule_count: z.int(),
  default_rule_count: z.int(),
  mcp_server_count: z.int(),
  pack_count: z.int(),
}).openapi("Profile");

const BrokenProfile = z.object({
  id: z.string(),
  source: z.enum(["builtin", "user"]),
  error: z.string().describe("reason, with file and line"),
  code: z.string(),
}).openapi("BrokenProfile");

export const ProfileList = z.object({
  profiles: z.array(ProfileSummary),
  broken: z.array(BrokenProfile).describe("folders with an invalid profile"),
}).openapi("ProfileList");
export type ProfileList = z.infer<typeof ProfileList>;

export const ProfileInfo = z.object({
  profile: ProfileSummary,
  obom: z.object({
    profile_id: z.string(),
    current_arch: z.enum(["arm64", "x86_64"]),
    scope: z.literal("base_image"),
    format: z.literal("cyclonedx-obom.v1"),
    name: z.string(),
    url: z.string(),
    hash: z.string(),
    size: z.int(),
    generator: z.string(),
    generator_version: z.string(),
    rootfs_hash: z.string(),
    route: z.string(),
    problem: z.string().optional().describe("why its file cannot be read, and what to do"),
  }).optional(),
}).openapi("ProfileInfo");
export type ProfileInfo = z.infer<typeof ProfileInfo>;

const params = z.object({ id: z.string().openapi({ param: { name: "id", in: "path" }, example: "code" }) });
const tags = ["profile"];

export const profileRoutes = {
  list: createRoute({
    method: "get",
    path: "/profiles/list",
    tags,
    responses: answers("all profiles; invalid ones are listed apart", ProfileList),
  }),
  info: createRoute({
    method: "get",
    path: "/profiles/{id}/info",
    tags,
    request: { params },
    responses: answers("one profile, with the OBOM descriptor of its base image", ProfileInfo),
  }),
  obom: createRoute({
    method: "get",
    path: "/profiles/{id}/obom",
    tags,
    request: { params },
    responses: answers(
      "the OBOM as CycloneDX JSON, verified by size and BLAKE3",
      z.looseObject({ bomFormat: z.string() }),
    ),
  }),
};
