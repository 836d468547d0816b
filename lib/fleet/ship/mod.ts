/** Shipping ledgers from a machine to a collector (docs/guides/fleet.md). */
export {
  type Cursor,
  readCursor,
  removeCursor,
  type Shipped,
  Shipper,
  type ShipperOptions,
  writeCursor,
} from "./shipper.ts";
export { FolderTarget, type Receipt, type SegmentTarget } from "./target.ts";
export { type Authorize, HttpTarget, openUpload, type Upload, UPLOAD_HEADER } from "./http.ts";
export { NatsTarget } from "./nats.ts";
export {
  makeReport,
  openReport,
  readReport,
  Report,
  REPORT_SESSIONS_MAX,
  ReportBody,
  slotOf,
} from "./report.ts";
