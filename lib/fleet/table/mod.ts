/** The rows of a store as tables: Parquet, DDL, and where hunts look. */
export { ledgerSource, parquetTable, schemaStatements, TABLES, tableSource } from "./columns.ts";
export { eventsOf, hunt, type HuntRow, openOver, type Over, sessionsSince } from "./hunt.ts";
export { ClickHouseLoader, keepLoading, type LoadedRows } from "./load.ts";
export { writeTables, type Written } from "./write.ts";
export { type RetroFinding, retroHunt, type RetroPack, type RetroReport } from "./retro.ts";
