/** Zod schema of detection packs `sbx.detection-pack.v1` (docs/design/contracts/06-detection.md §6). */
import { z } from "zod";
import { EVENT_FAMILIES } from "../../event/mod.ts";
import { CONFIDENCES, OWNERS, PACK_STATUSES, SEVERITIES, TAG_MAX, TAGS_MAX } from "../ir/ir.ts";

export const PACK_SCHEMA = "sbx.detection-pack.v1";

/** Lower case only, so that ids never differ only in case. */
export const PACK_ID = /^[a-z0-9][a-z0-9_.-]{2,95}$/;
export const SOURCE_ID = /^[a-z0-9][a-z0-9_.-]{2,127}$/;

/** Maximum `bytes` of a pack, and maximum characters of all its sources together. */
export const PACK_MAX = 4 * 1024 * 1024;
/** Maximum number of sources and of rules per pack. */
export const SOURCES_MAX = 10_000;
export const RULES_MAX = 20_000;

const text = (max: number) =>
  z.string().max(max).refine((value) => !value.includes("\0"), "must not contain a NUL");
const name = (max: number) => text(max).min(1);
const url = text(2048).refine(
  (value) => /^https?:$/.test(URL.parse(value)?.protocol ?? ""),
  "must be an http or https URL",
);

/** Path below the pack's folder. */
const localPath = name(1024).refine(
  (path) => !path.startsWith("/") && !/\\/.test(path) && !path.split("/").includes(".."),
  "must be a relative path below the pack's folder, without .. and backslashes",
);

/** Tags in Sigma's format: `attack.t1041`, `exfil`. */
export const TagsSchema = z.array(name(TAG_MAX)).max(TAGS_MAX);

export const SourceSchema = z.strictObject({
  id: text(128).regex(
    SOURCE_ID,
    "must be a source id: [a-z0-9_.-], 3 to 128 characters, a letter or digit first",
  ),
  type: z.enum(["sigma", "ir", "reference"]),
  format: z.enum(["yaml", "json"]).describe("format of the content; sigma is always yaml"),
  content: text(PACK_MAX).min(1).optional(),
  path: localPath.optional().describe("file below the pack's folder"),
  url: url.optional().describe("where it is published; sbx does not fetch it"),
  hash: text(71).regex(/^blake3:[0-9a-f]{64}$/, 'must be "blake3:" and 64 lower-case hex characters')
    .optional(),
  signature_url: url.optional(),
}).superRefine((source, context) => {
  const { type, format, content, path, url: from } = source;
  const issue = (key: string, message: string) => context.addIssue({ code: "custom", path: [key], message });
  if (type === "sigma" && format !== "yaml") issue("format", "must be yaml for a sigma source");
  if (content === undefined && path === undefined && from === undefined) {
    issue("content", "is missing; add content, a path or a url");
  }
  if (content !== undefined && path !== undefined) {
    issue("path", "cannot be combined with content; remove one");
  }
});
export type Source = z.output<typeof SourceSchema>;

/** Map of Sigma fields to event fields for one family. */
const FamilyMapping = z.record(
  name(128).regex(/^[^|]+$/, "must be a Sigma field without |"),
  name(256),
).superRefine((mapping, context) => {
  const seen = new Map<string, string>();
  for (const field of Object.keys(mapping)) {
    const duplicate = seen.get(field.toLowerCase());
    if (duplicate !== undefined) {
      context.addIssue({
        code: "custom",
        path: [field],
        message: `differs from "${duplicate}" only in case`,
      });
    }
    seen.set(field.toLowerCase(), field);
  }
});

export const MappingSchema = z.strictObject(
  Object.fromEntries(EVENT_FAMILIES.map((family) => [family, FamilyMapping.optional()])) as Record<
    typeof EVENT_FAMILIES[number],
    z.ZodOptional<typeof FamilyMapping>
  >,
);
export type FieldMapping = z.output<typeof MappingSchema>;

/** Every key of a pack; unknown keys are errors. */
export const PackSchema = z.strictObject({
  schema: z.literal(PACK_SCHEMA),
  id: text(96).regex(PACK_ID, "must be a pack id: [a-z0-9_.-], 3 to 96 characters, a letter or digit first"),
  version: name(128),
  status: z.enum(PACK_STATUSES),
  owner: z.enum(OWNERS),
  description: text(4096).default(""),
  field_mapping: MappingSchema.prefault({}),
  sources: z.array(SourceSchema).min(1).max(SOURCES_MAX),
  findings: z.strictObject({
    default_severity: z.enum(SEVERITIES).default("medium"),
    default_confidence: z.enum(CONFIDENCES).default("medium"),
    tags: TagsSchema.default([]),
    export_routes: z.array(name(64)).max(16).default([]).describe(
      "sinks that its findings go to beside the audit file; all of them when empty",
    ),
  }).prefault({}),
}).superRefine(({ sources, field_mapping }, context) => {
  const mapped = Object.values(field_mapping).some((fields) => Object.keys(fields ?? {}).length > 0);
  if (!mapped && sources.some(({ type }) => type === "sigma")) {
    context.addIssue({
      code: "custom",
      path: ["field_mapping"],
      message: "must not be empty: sigma sources need a mapping of their fields",
    });
  }
  const seen = new Map<string, number>();
  sources.forEach(({ id }, at) => {
    const first = seen.get(id);
    if (first !== undefined) {
      context.addIssue({
        code: "custom",
        path: ["sources", at, "id"],
        message: `duplicates the id of sources[${first}]`,
      });
    }
    seen.set(id, first ?? at);
  });
});
export type PackFile = z.output<typeof PackSchema>;
