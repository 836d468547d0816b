/** ClickHouse over its HTTP interface (docs/guides/fleet.md). */
export { type ClickHouseAddress, parseClickHouse } from "./address.ts";
export { ClickHouseClient, type ClickHouseRow } from "./client.ts";
export { lastHeads, MAILBOX_STATEMENTS, reportsSince, segmentsFrom, sessionHeads } from "./mailbox.ts";
