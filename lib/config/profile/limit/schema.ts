/**
 * Limits and form of a profile's values, apart from its schema: the shapes of the API need them, and not the
 * modules that check a profile.
 */

/** Profile id, equal to the folder's name (docs/design/contracts/04-profiles.md §4). */
export const PROFILE_ID = /^[a-z0-9_-]{1,64}$/;

/**
 * Largest resources of a VM (docs/design/contracts/03-settings.md §3 `vm.resources`, §4). A smaller host is a
 * smaller limit, which its service checks (lib/service/vm/boot.ts).
 */
export const VM_CPU_MAX = 64;
export const VM_RAM_GB_MAX = 256;
export const VM_SCRATCH_DISK_GB_MAX = 1024;

/** Most files with descriptors of gRPC in a profile (docs/design/contracts/14-limits.md §14). */
export const GRPC_DESCRIPTOR_FILES_MAX = 16;

/** Most services of the host in a profile (docs/design/contracts/14-limits.md §14). */
export const HOST_SERVICES_MAX = 32;
