/**
 * `[agent.setup]` of a profile: the files by which a person sets up the agent
 * (docs/design/contracts/04-profiles.md §4).
 */
import { z } from "zod";

/** Most paths of one kind, and most patterns of a file. */
const LIST_MAX = 64;

/** Path below the home of a person, on the host and in the guest alike. */
const homePath = z.string().max(256).regex(
  /^(?!.*(^|\/)\.\.?(\/|$))[\w@.+-]+(\/[\w@.+-]+)*$/,
  "must be a path below the home",
);
const homePaths = z.array(homePath).max(LIST_MAX).default([]);

/** Names of keys down to a value, with `*` for any part of a name, or for any element of a list. */
const keyPattern = z.string().max(256).regex(
  /^[\w$*-]+(\.[\w$*-]+)*$/,
  "must be names of keys with dots between them, and * for any part of a name",
);
const keyPatterns = z.array(keyPattern).max(LIST_MAX).default([]);

/** A file of settings, which is read and written again. */
const SettingsFile = z.strictObject({
  /** json: with comments too */
  format: z.enum(["json", "toml", "yaml"]),
  /** file of the guest that gets it; default: the same path */
  into: homePath.optional(),
  /** variable of the person that names the file, which is read nowhere else; none of sbx's own */
  from: z.string().max(64).regex(
    /^(?!SBX_)[A-Z][A-Z0-9_]*_CONFIG$/,
    "must be a variable that ends in _CONFIG",
  )
    .optional(),
  /** the values that go; none: all */
  only: keyPatterns,
  /** values that never go */
  never: keyPatterns,
  /** values that are command lines, or tables with one: each is asked about */
  programs: keyPatterns,
  /** MCP servers: each is asked about */
  servers: keyPatterns,
});
export type SettingsFile = z.output<typeof SettingsFile>;

/** A variable of the person that names a folder, and a path below it. None of sbx's own, and not the home. */
const moved = z.string().max(256).regex(
  /^(?!SBX_)[A-Z][A-Z0-9_]*_(HOME|DIR)(\/(?!\.{1,2}(\/|$))[\w@.+-]+)*$/,
  "must be the name of a variable that ends in _HOME or _DIR, and a path below its folder",
);

/** A path shown by one name must not be read from another. */
const Moved = z.record(
  homePath,
  // The first variable that is set.
  z.union([moved.transform((to) => [to]), z.array(moved).min(1).max(4)]),
).refine(
  (table) =>
    Object.entries(table).every(([path, places]) =>
      places.every((to) => !to.includes("/") || path.split("/").at(-1) === to.split("/").at(-1))
    ),
  "must keep the last name of each path",
);

export const AgentSetup = z.strictObject({
  /** its own folders: anything else in them stays, and is named */
  folders: homePaths,
  /**
   * where they are instead, and files directly in the home, if a variable of the person
   * says so: VARIABLE or VARIABLE/PATH
   */
  moved: Moved.optional(),
  /** files and folders of instructions */
  texts: homePaths,
  /** files and folders that it runs: each file is asked about */
  programs: homePaths,
  /** files and folders that never go, each with the reason */
  never: z.record(homePath, z.string().min(1).max(80)).default({}),
  /** keys at the top of a text of Markdown by which it runs programs: such a text is asked about */
  front_matter: z.array(z.string().regex(/^[\w-]{1,64}$/)).max(LIST_MAX).default([]),
  settings: z.record(homePath, SettingsFile).default({}),
});
export type AgentSetup = z.output<typeof AgentSetup>;
