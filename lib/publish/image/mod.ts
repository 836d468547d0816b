/** Builds the guest image from Debian packages: kernel, initrd, root file system and OBOM. */
export { BUILD_STAGES, buildImage, type BuildOptions } from "./build.ts";
export { bundleGuestPrograms, GUEST_DENO_VERSION, GUEST_PROGRAMS } from "./guest.ts";
export {
  hasTool,
  requireTools,
  run,
  runText,
  throwIfInterrupted,
  UNPACKERS,
  withInterrupts,
} from "./command.ts";
export { archNames } from "./arch.ts";
export { installedPackages, obomDocument } from "./obom.ts";
