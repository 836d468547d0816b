/**
 * Limits of the work a guest may send (docs/design/contracts/14-limits.md §14); larger work is refused
 * and removed.
 */

/** Most `bytes` of a bundle. */
export const BUNDLE_MAX = 4 * 1024 ** 3;
/** Most `bytes` of a bundle's head, the lines above its pack. */
export const HEAD_MAX = 64 * 1024;
/** Most objects of a pack. */
export const OBJECTS_MAX = 2_000_000;
/** Most `bytes` of one object, inflated. */
export const OBJECT_MAX = 2 * 1024 ** 3;
/** Most `bytes` of all objects of a pack, inflated. */
export const INFLATED_MAX = 16 * 1024 ** 3;
/** Most `bytes` of one tree or commit, inflated. */
export const TREE_MAX = 64 * 1024 ** 2;
/** Most entries of all new trees together. */
export const NEW_ENTRIES_MAX = 4_000_000;
/** Most files that a commit checks out. */
export const FILES_MAX = 500_000;
/** Most levels of folders. */
export const DEPTH_MAX = 128;
/** Most `bytes` of a path. */
export const PATH_MAX = 4096;
/** Most `bytes` of one name. */
export const NAME_MAX = 255;
/** Most new commits. */
export const COMMITS_MAX = 100_000;
/** Most `bytes` of a link's target. */
export const TARGET_MAX = 4096;
/** Most `bytes` of a diff's text that is read. */
export const DIFF_MAX = 64 * 1024 ** 2;
/** Most changed paths of a summary. */
export const CHANGES_MAX = 200_000;

/** Most processor time of one git over a guest's bytes, in `s`. */
export const GIT_SECONDS = 900;
/** Most memory of one git over a guest's bytes, in `bytes` of address space. */
export const GIT_MEMORY = 8 * 1024 ** 3;
/** Most memory that such a git allocates at once, in `bytes`; larger files are streamed or refused. */
export const GIT_ALLOCATION = 1024 ** 3;

/** Longest step in the guest, in `s`. */
export const STEP_SECONDS = 3600;

/** Most repositories and folders of one VM. */
export const SOURCES_MAX = 32;

/**
 * Most earlier states of a VM's repositories that a person's commands kept, and that
 * turns of agents did; the oldest go.
 */
export const STATES_MAX = 20;
export const TURN_STATES_MAX = 20;
/** Longest time that a state is kept, in `days`; the newest stays. */
export const STATE_DAYS = 30;
/** Most `bytes` that all states of a VM have. */
export const STATES_BYTES_MAX = 4 * 1024 ** 3;

/** What one state may cost. */
export interface StateLimits {
  /** most `bytes` that it adds, as sent and inflated */
  bytes: number;
  inflated: number;
  /** most `bytes` of all states of the VM with it */
  all: number;
  /** longest step in the guest, in `s` */
  seconds: number;
  /** longest wait for another program that takes work, in `ms` */
  wait_ms?: number;
}
/**
 * Of a state that a person's other command waits for, of one that an undo keeps before it overwrites the
 * work, and of one that an agent's turn does not wait for.
 */
export const STATE_LIMITS: StateLimits = {
  bytes: 512 * 1024 ** 2,
  inflated: 4 * 1024 ** 3,
  all: STATES_BYTES_MAX,
  seconds: STEP_SECONDS,
};
export const UNDO_LIMITS: StateLimits = {
  bytes: STATES_BYTES_MAX,
  inflated: INFLATED_MAX,
  all: STATES_BYTES_MAX,
  seconds: STEP_SECONDS,
};
export const TURN_LIMITS: StateLimits = {
  bytes: 64 * 1024 ** 2,
  inflated: 1024 ** 3,
  all: STATES_BYTES_MAX,
  seconds: 60,
  wait_ms: 0,
};
