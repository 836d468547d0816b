/**
 * Schema of `[activity]`: classes of the guest's files (docs/design/contracts/04-profiles.md §4, "Classes of paths").
 */
import { z } from "zod";
import { NAMED_CLASSES, pathClass } from "../../event/mod.ts";

/** Most paths of a profile, and most characters of each (docs/design/contracts/14-limits.md §14). */
const PATHS_MAX = 32;
const PATH_CHARACTERS_MAX = 512;
/** The only folder of /dev that holds ordinary files. */
const SHARED_MEMORY = /^\/dev\/shm(\/|$)/;

const path = z.string().max(PATH_CHARACTERS_MAX)
  .regex(
    /^(\/(?!\.{1,2}(\/|$))[^/\p{Cc}]+)+$/u,
    "must be an absolute path without //, . or .., and without / at its end",
  )
  .refine(
    (path) => pathClass(path) !== "device" || SHARED_MEMORY.test(path),
    "has no files: it is the kernel's",
  );

export const Activity = z.strictObject({
  paths: z.record(path, z.enum(NAMED_CLASSES)).refine(
    (paths) => Object.keys(paths).length <= PATHS_MAX,
    `must have at most ${PATHS_MAX} paths`,
  ),
});
