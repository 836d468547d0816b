/** ClickHouse over its HTTP interface (docs/guides/fleet.md). */
export { type ClickHouseAddress, ClickHouseClient, type ClickHouseRow, parseClickHouse } from "./client.ts";
