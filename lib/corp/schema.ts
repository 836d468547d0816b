/** Schema of corp.toml (docs/contracts.md §3). */
import { z } from "zod";
import { BudgetTerms } from "../budget/schema.ts";
import { rulesSchema } from "../policy/author/schema.ts";
import { CorpMcpServers } from "../profile/mod.ts";

/** Value of any setting; checked later against the setting's own type. */
const SettingValue = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.array(z.union([z.string(), z.number()])),
  z.strictObject({ path: z.string(), content: z.string() }),
]);

/** `[settings."<id>"]`: forces a value, hides the setting, or disables it. */
const SettingEntry = z.strictObject({
  value: SettingValue.optional(),
  hidden: z.boolean().optional(),
  enabled: z.boolean().optional(),
});

const path = z.string().min(1).refine(
  (value) => !value.split("/").includes("..") && !value.includes("\0"),
  "must be a path without ..",
);
const httpUrl = z.string().refine(
  (value) => {
    const url = URL.parse(value);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  },
  "must be an http or https URL without a user or password; a credential_ref beside it names a credential",
);
const credentialRef = z.string().regex(
  /^credential:blake3:[0-9a-f]{64}$/,
  'must be "credential:blake3:" and 64 hex characters, never the secret',
);
const user = z.string().regex(/^[^:\p{Cc}]{1,256}$/u, "must be a user name without a colon");

/** Complete corp.toml. */
export const CorpFile = z.strictObject({
  refresh_policy: z.string().min(1).max(64).optional(),
  settings: z.record(z.string(), SettingEntry).prefault({}),
  mcp: CorpMcpServers.prefault({}),
  corp_rule_files: z.strictObject({
    enforcement: path.optional(),
    sigma: path.optional(),
    sigma_output_endpoint: httpUrl.optional(),
    sigma_output_credential_ref: credentialRef.optional(),
    sigma_output_user: user.optional(),
    open_telemetry: httpUrl.optional(),
    open_telemetry_credential_ref: credentialRef.optional(),
    open_telemetry_user: user.optional(),
  }).prefault({}),
  budget: BudgetTerms.optional(),
  corp: z.strictObject({ rules: rulesSchema("corp").prefault({}) }).prefault({}),
  /** collector of events from many hosts (docs/contracts.md §12) */
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
