/**
 * Generates docs/reference/, schemas/, the gateway's routes and the field catalogue of events from the code:
 * `make docs`. Tests fail when one of them is stale.
 */
import { writeEventFiles } from "../lib/event/generate.ts";

/** One generated file of docs/reference/. */
export interface GeneratedPage {
  file: string;
  text(): string | Promise<string>;
}

export const PAGES: GeneratedPage[] = [
  // Loaded late: they load the field catalogue, which is written first.
  { file: "cli.md", text: async () => (await import("./docs_cli.ts")).cliPage() },
  { file: "api.md", text: async () => (await import("./docs_api.ts")).apiPage() },
  { file: "settings.md", text: async () => (await import("./docs_settings.ts")).settingsPage() },
  { file: "code-map.md", text: async () => (await import("./docs_code_map.ts")).codeMapPage() },
  { file: "files.md", text: async () => (await import("./docs_files.ts")).filesPage() },
  { file: "reports.md", text: async () => (await import("./docs_reports.ts")).reportsPage() },
  { file: "providers.md", text: async () => (await import("./docs_providers.ts")).providersPage() },
  { file: "wire.md", text: async () => (await import("./docs_wire.ts")).wirePage() },
  { file: "views.md", text: async () => (await import("./docs_views.ts")).viewsPage() },
];

if (import.meta.main) {
  for (const { pathname } of await writeEventFiles()) console.log(pathname);
  const folder = new URL("../docs/reference/", import.meta.url);
  await Deno.mkdir(folder, { recursive: true });
  for (const { file, text } of PAGES) {
    await Deno.writeTextFile(new URL(file, folder), await text());
    console.log(new URL(file, folder).pathname);
  }
  const { ROUTES_FILE, routesModule } = await import("./gateway_routes.ts");
  await Deno.writeTextFile(new URL(`../${ROUTES_FILE}`, import.meta.url), routesModule());
  console.log(new URL(`../${ROUTES_FILE}`, import.meta.url).pathname);
  const { SUMMARIES_FILE, summariesModule } = await import("./cli_summaries.ts");
  await Deno.writeTextFile(new URL(`../${SUMMARIES_FILE}`, import.meta.url), await summariesModule());
  console.log(new URL(`../${SUMMARIES_FILE}`, import.meta.url).pathname);
  const { writeSchemas } = await import("./schemas.ts");
  await writeSchemas();
  const { writeStable } = await import("./stable_api.ts");
  const { openApi } = await import("../cmd/service/app.ts");
  await writeStable(openApi());
}
