export {
  ConfinedLauncher,
  type ConfinedProgram,
  type ConfinedStart,
  type LauncherOptions,
  prepareLauncher,
  SYSTEM,
} from "./launcher.ts";
