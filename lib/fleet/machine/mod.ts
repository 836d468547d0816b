/** A machine of a fleet: what it ships, to where, and how far it is (docs/guides/fleet.md). */
export { BACKLOG_BYTES, FleetMachine, type FleetMachineOptions } from "./machine.ts";
export { fleetPaths, type FleetStatus, readStatus } from "./status.ts";
export { openTarget } from "./target.ts";
