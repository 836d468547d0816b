/** The rows of a store as tables: Parquet, DDL, and where hunts look. */
export { ledgerSource, parquetTable, schemaStatements, TABLES, tableSource } from "./columns.ts";
export { serverTables } from "./erase.ts";
export { hunt, type HuntRow } from "./hunt.ts";
export { ClickHouseLoader, keepLoading, type LoadedRows } from "./load.ts";
export { type FleetRecords, openRecords } from "./records.ts";
export { sendFindings } from "./send.ts";
export { eventsOf, sessionsSince } from "./session.ts";
export { writeTables, type Written } from "./write.ts";
export { type RetroFinding, retroHunt, type RetroPack, type RetroReport } from "./retro.ts";
