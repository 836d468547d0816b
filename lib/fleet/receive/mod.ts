/** The receiver of a fleet (docs/guides/fleet.md): enrolment, segments and reports, into a folder. */
export {
  endMachine,
  endOf,
  enrol,
  enrolHome,
  findMachine,
  keyOf,
  lastAlive,
  listMachines,
  Machine,
  type MachineEnd,
  redactMachine,
} from "./machines.ts";
export { makeToken, TOKEN_HOURS, TOKEN_HOURS_MAX, TOKEN_MACHINES_MAX } from "./tokens.ts";
export { type Answer, keepProblem, type Problem, readEnd, readProblems, Receiver } from "./receiver.ts";
export {
  checkFleet,
  type FleetCheck,
  followSegments,
  type MachineCheck,
  type SessionCheck,
} from "./check.ts";
export { serveFleet, type ServeOptions, signerOf } from "./server.ts";
export { type FleetServer, type Place, serveBehindFront } from "./front.ts";
