/**
 * Query engines from npm: DuckDB and chdb (ClickHouse in process). They are not part of sbx: hundreds of
 * megabytes that only fleet queries need. They are installed beside it, and loaded on use.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";

/** Packages and the versions that sbx is tested with. */
export const ENGINES = { "@duckdb/node-api": "1.5.6-r.1", chdb: "3.4.0" } as const;
export type EngineName = keyof typeof ENGINES;

/** Folder that has `node_modules`. */
export function enginesFolder(): string {
  const named = Deno.env.get("SBX_FLEET_ENGINES");
  if (named) return named;
  return join(Deno.env.get("SBX_HOME") ?? join(Deno.env.get("HOME") ?? ".", ".sbx"), "fleet", "engines");
}

/** Loads an engine. @throws {SbxError} `fleet.engine.missing` */
// deno-lint-ignore no-explicit-any -- the engine is no dependency: its types are missing
export function loadEngine(name: EngineName): any {
  const folder = enginesFolder();
  const version = ENGINES[name];
  const install = `npm install --ignore-scripts --prefix ${folder} ${name}@${version}`;
  let found: string;
  try {
    found = JSON.parse(Deno.readTextFileSync(join(folder, "node_modules", name, "package.json"))).version;
  } catch (cause) {
    throw new SbxError("fleet.engine.missing", `${name} is not installed in ${folder}`, {
      cause,
      hint: install,
    });
  }
  if (found !== version) {
    throw new SbxError(
      "fleet.engine.missing",
      `${name} in ${folder} has version ${found}, and sbx needs ${version}`,
      {
        hint: install,
      },
    );
  }
  return createRequire(join(folder, "package.json"))(name);
}
