/** Engines that answer questions over a fleet; each is loaded where it is used. */
export { ChDb } from "./chdb.ts";
export { ClickHouseServer } from "./clickhouse.ts";
export { DuckDb } from "./duckdb.ts";
export type { Engine, Parameters, Row } from "./engine.ts";
export { type EngineName, ENGINES, enginesFolder, loadEngine } from "./load.ts";
