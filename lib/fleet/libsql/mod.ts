/** libSQL servers as the way between machines and a receiver (docs/guides/fleet.md). */
export { FleetDatabase, parseLibsql } from "./database.ts";
