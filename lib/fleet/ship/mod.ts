/** Shipping ledgers from a machine to a collector (docs/guides/fleet.md). */
export { type Cursor, readCursor, removeCursor, START, writeCursor } from "./cursor.ts";
export { ClickHouseTarget } from "./clickhouse.ts";
export { FolderTarget } from "./folder.ts";
export { type Authorize, HttpTarget } from "./http.ts";
export { LibsqlTarget } from "./libsql.ts";
export { NatsTarget } from "./nats.ts";
export { makeReport, openReport, readReport, Report, REPORT_SESSIONS_MAX, ReportBody } from "./report.ts";
export { type Shipped, Shipper, type ShipperOptions } from "./shipper.ts";
export type { Receipt, SegmentTarget } from "./target.ts";
export { openUpload, type Upload, UPLOAD_HEADER } from "./upload.ts";
