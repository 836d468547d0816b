/** A machine of a fleet: its shipped ledgers, their target and their progress (docs/guides/fleet.md). */
export { BACKLOG_BYTES, FleetMachine, type FleetMachineOptions } from "./machine.ts";
export { fleetPaths, type FleetStatus, readStatus } from "./status.ts";
export { openTarget } from "./target.ts";
