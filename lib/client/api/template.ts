/** Routes of templates: booted guests from which VMs start. */
import { createRoute, z } from "@hono/zod-openapi";
import { ARCHES } from "../../base/arch/mod.ts";
import { answers, body } from "./common.ts";
import { CreateRequest } from "./vm.ts";

export const TemplateInfo = z.object({
  id: z.string(),
  created_at: z.iso.datetime(),
  arch: z.enum(ARCHES),
  cpus: z.int(),
  ram_mb: z.int(),
  accelerator: z.string(),
  rootfs: z.string().describe("BLAKE3 of the image that it booted"),
  bytes: z.int().describe("space on the disk"),
}).openapi("Template");
export type TemplateInfo = z.infer<typeof TemplateInfo>;

export const TemplateList = z.object({ templates: z.array(TemplateInfo) }).openapi("TemplateList");
export type TemplateList = z.infer<typeof TemplateList>;

export const TemplateRequest = z.strictObject({
  profile_id: CreateRequest.shape.profile_id,
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  arch: CreateRequest.shape.arch,
  image: CreateRequest.shape.image,
}).openapi("TemplateMake");
export type TemplateRequest = z.infer<typeof TemplateRequest>;

const tags = ["template"];

export const templateRoutes = {
  list: createRoute({
    method: "get",
    path: "/templates",
    tags,
    responses: answers("templates, in the order of their making", TemplateList),
  }),
  make: createRoute({
    method: "post",
    path: "/templates",
    tags,
    request: body(TemplateRequest),
    responses: answers(
      "the template of the machine that VMs of the profile have; one that is there is kept",
      TemplateInfo,
    ),
  }),
  remove: createRoute({
    method: "delete",
    path: "/templates/{id}",
    tags,
    request: { params: z.object({ id: z.string().openapi({ param: { name: "id", in: "path" } }) }) },
    responses: answers("removed", z.object({ id: z.string(), deleted: z.boolean() })),
  }),
};
