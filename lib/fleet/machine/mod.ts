/** A machine of a fleet: its shipped ledgers, their target and their progress (docs/guides/fleet.md). */
export {
  BACKLOG_BYTES,
  FleetMachine,
  type FleetMachineOptions,
  fleetPaths,
  type FleetStatus,
  openTarget,
  readStatus,
} from "./machine.ts";
