/** libSQL servers as the way between machines and a receiver (docs/fleet.md). */
export { FleetDatabase, parseLibsql } from "./database.ts";
