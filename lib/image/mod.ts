/** The guest image: kernel, initrd, root file system and OBOM, built from Debian packages (architecture.md, "The VM on Linux"). */
export { type Arch, ARCHES, hostArch, parseArch } from "./arch.ts";
export { BUILD_STAGES, buildImage, type BuildOptions } from "./build.ts";
export { bundleGuestPrograms, GUEST_DENO_VERSION, GUEST_PROGRAMS } from "./guest.ts";
export { OBOM_GENERATOR } from "./obom.ts";
