/** Programs that read hostile bytes, started within limits that the kernel holds them to. */
export {
  ConfinedLauncher,
  type ConfinedProgram,
  type ConfinedStart,
  type LauncherOptions,
  placesOf,
  prepareLauncher,
  SYSTEM,
} from "./launcher.ts";
