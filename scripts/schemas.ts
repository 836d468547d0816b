/**
 * Writes the JSON Schemas that are generated from zod definitions, and the API as OpenAPI: `deno run -A
 * scripts/schemas.ts`. A test fails when one is stale.
 */
import { z } from "zod";
import { openApi } from "../cmd/service/app.ts";
import { DebugReport } from "../lib/client/api/debug.ts";
import { SettingsResponse } from "../lib/client/api/settings.ts";
import { CorpFile } from "../lib/config/corp/mod.ts";
import { IrSchema } from "../lib/detection/ir/schema.ts";
import { PackSchema } from "../lib/detection/pack/schema.ts";
import { ProfileFile } from "../lib/config/profile/mod.ts";
import { ChannelIndex, ChannelManifest } from "../lib/release/schema.ts";
import { TrustDocument } from "../lib/release/mod.ts";
import { loadDefinitions, settingsFile } from "../lib/config/settings/mod.ts";

/** One generated file of schemas/. */
export interface GeneratedSchema {
  file: string;
  schema(): object | Promise<object>;
}

/** Schema of a file that people write: defaults may be absent, and unknown keys are errors. */
function ofFile(schema: z.ZodType, title: string): object {
  return { title, ...z.toJSONSchema(schema, { io: "input" }) };
}

export const SCHEMAS: GeneratedSchema[] = [
  {
    file: "settings.schema.json",
    schema: async () =>
      ofFile(settingsFile(await loadDefinitions({ get: () => undefined })), "sbx settings.toml"),
  },
  { file: "corp.schema.json", schema: () => ofFile(CorpFile, "sbx corp.toml") },
  {
    file: "settings-info.schema.json",
    schema: () => ({ title: "Answer of GET /settings/info", ...z.toJSONSchema(SettingsResponse) }),
  },
  { file: "profile.schema.json", schema: () => ofFile(ProfileFile, "sbx profile.toml") },
  { file: "sbx.detection-pack.v1.schema.json", schema: () => ofFile(PackSchema, "sbx.detection-pack.v1") },
  { file: "sbx.detection.ir.v1.schema.json", schema: () => ofFile(IrSchema, "sbx.detection.ir.v1") },
  { file: "channels.schema.json", schema: () => ofFile(ChannelIndex, "sbx channels.json") },
  { file: "channel-manifest.schema.json", schema: () => ofFile(ChannelManifest, "sbx channel manifest") },
  { file: "sbx.release_trust.v1.schema.json", schema: () => ofFile(TrustDocument, "sbx.release_trust.v1") },
  {
    file: "sbx.debug.v2.schema.json",
    schema: () => ({ title: "sbx.debug.v2", ...z.toJSONSchema(DebugReport) }),
  },
  { file: "openapi.json", schema: openApi },
];

/** The text of a schema file. */
export async function schemaText({ schema }: GeneratedSchema): Promise<string> {
  return JSON.stringify(await schema(), null, 2) + "\n";
}

/** Writes them all. */
export async function writeSchemas(): Promise<void> {
  for (const generated of SCHEMAS) {
    const path = new URL(`../schemas/${generated.file}`, import.meta.url);
    await Deno.writeTextFile(path, await schemaText(generated));
    console.log(path.pathname);
  }
}

if (import.meta.main) await writeSchemas();
