/** The shape of corp.toml (contracts.md §3). */
import { z } from "zod";
import { rulesSchema } from "../policy/author/schema.ts";
import { McpServers } from "../profile/mod.ts";

/** Any value that a setting can have; which one fits is the setting's business. */
const SettingValue = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.array(z.union([z.string(), z.number()])),
  z.strictObject({ path: z.string(), content: z.string() }),
]);

/** `[settings."<id>"]`: force a value, hide, or switch off. */
const SettingEntry = z.strictObject({
  value: SettingValue.optional(),
  hidden: z.boolean().optional(),
  enabled: z.boolean().optional(),
});

/** A server of corp's own, or a few words that switch a profile's server off (spec.md, "Corp capabilities"). */
const CorpMcpServer = z.union([
  McpServers.valueType,
  z.strictObject({ enabled: z.literal(false) }),
]);

const path = z.string().min(1).refine(
  (value) => !value.split("/").includes("..") && !value.includes("\0"),
  "must be a path without ..",
);
const httpUrl = z.string().refine(
  (value) => /^https?:$/.test(URL.parse(value)?.protocol ?? ""),
  "must be an http or https URL",
);

/** Everything that a corp.toml may hold. */
export const CorpFile = z.strictObject({
  refresh_policy: z.string().min(1).max(64).optional(),
  settings: z.record(z.string(), SettingEntry).prefault({}),
  mcp: z.record(McpServers.keyType, CorpMcpServer).prefault({}),
  corp_rule_files: z.strictObject({
    enforcement: path.optional(),
    sigma: path.optional(),
    sigma_output_endpoint: httpUrl.optional(),
    open_telemetry: httpUrl.optional(),
  }).prefault({}),
  corp: z.strictObject({ rules: rulesSchema("corp").prefault({}) }).prefault({}),
  /** where the events of many hosts are collected (contracts.md §12) */
  ledger: z.strictObject({
    url: z.string().refine(
      (value) =>
        /^(libsql|https?|file):$/.test(URL.parse(value)?.protocol ?? "") && !URL.parse(value)?.password,
      "must be a libsql, http(s) or file URL without a password; auth_token_file names a file with the token",
    ).optional(),
    auth_token_file: path.optional(),
  }).prefault({}),
  release: z.strictObject({
    manifest_url: z.string().refine(
      (value) => /^(https?|file):$/.test(URL.parse(value)?.protocol ?? ""),
      "must be an http, https or file URL",
    ).optional(),
    hmac_key_file: path.optional(),
  }).prefault({}),
});
export type CorpFile = z.output<typeof CorpFile>;
