import type { Hono } from "hono";
import { type CorpInfo, type SettingExplanation, settingsRoutes } from "../../../lib/client/api/mod.ts";
import { corpInfo, type CorpStore } from "../../../lib/config/corp/mod.ts";
import type { SettingsStore } from "../../../lib/config/settings/mod.ts";
import { handle } from "../handle.ts";

/** Routes of the settings and of corp. */
export function routeSettings(app: Hono, settings: SettingsStore, corp: CorpStore): void {
  handle(app, settingsRoutes.info, ({ context }) => {
    const { json, gzip, etag } = settings.infoBytes();
    // The tree is large and changes rarely: a client that has it gets a few bytes.
    if (context.req.header("if-none-match") === etag) {
      return new Response(null, { status: 304, headers: { etag } });
    }
    const headers = { "content-type": "application/json", etag, vary: "accept-encoding" };
    const takesGzip = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\b)/i.test(context.req.header("accept-encoding") ?? "");
    // Compressed once for each change; Deno.serve would compress it for each request.
    return takesGzip
      ? new Response(gzip, { headers: { ...headers, "content-encoding": "gzip" } })
      : new Response(json, { headers });
  });
  handle(app, settingsRoutes.edit, ({ body }) => settings.edit(body));
  handle(app, settingsRoutes.explain, ({ params }): SettingExplanation => settings.explain(params.id));
  handle(app, settingsRoutes.corp, async (): Promise<CorpInfo> => {
    const { corpInForce } = await import("../../../lib/home/mod.ts");
    const info = corpInfo(corp);
    return { ...info, ...await corpInForce(corp, settings), ...(info.error && { error: info.error }) };
  });
}
