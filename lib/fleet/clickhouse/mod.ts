/** ClickHouse over its HTTP interface (docs/guides/fleet.md). */
export {
  type ClickHouseAddress,
  ClickHouseClient,
  type ClickHouseRow,
  lastHeads,
  MAILBOX_STATEMENTS,
  parseClickHouse,
  reportsSince,
  segmentsFrom,
  sessionHeads,
} from "./client.ts";
