/** Questions in SQL about one ledger. */
export { askLedger, SQL_ROWS_MAX, type SqlAnswer, type SqlValue } from "./sql.ts";
export { VIEW_FIELDS } from "../schema.ts";
