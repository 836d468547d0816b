/** The rows of a store as tables: Parquet, DDL, and where hunts look. */
export { schemaStatements, TABLES } from "./columns.ts";
export { ledgerSource, parquetTable, tableSource } from "./source.ts";
export { eventsOf, sessionsSince } from "./events.ts";
export { hunt, type HuntRow, openOver, type Over } from "./hunt.ts";
export { ClickHouseLoader, type LoadedRows } from "./load.ts";
export { keepLoading } from "./load_loop.ts";
export { writeTables, type Written } from "./write.ts";
export { type RetroFinding, retroHunt, type RetroPack, type RetroReport } from "./retro.ts";
