/**
 * Writes the pages of docs/reference/ from the commands, the routes and the settings themselves, and the schemas beside
 * them: `make docs`. A test fails when one is stale.
 */
import { apiPage } from "./docs_api.ts";
import { cliPage } from "./docs_cli.ts";
import { settingsPage } from "./docs_settings.ts";
import { writeSchemas } from "./schemas.ts";

/** One generated file of docs/reference/. */
export interface GeneratedPage {
  file: string;
  text(): string | Promise<string>;
}

export const PAGES: GeneratedPage[] = [
  { file: "cli.md", text: cliPage },
  { file: "api.md", text: apiPage },
  { file: "settings.md", text: settingsPage },
];

if (import.meta.main) {
  const folder = new URL("../docs/reference/", import.meta.url);
  await Deno.mkdir(folder, { recursive: true });
  for (const { file, text } of PAGES) {
    await Deno.writeTextFile(new URL(file, folder), await text());
    console.log(new URL(file, folder).pathname);
  }
  await writeSchemas();
}
