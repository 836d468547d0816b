/**
 * Recognizes sbx's own reads of a VM's work, called looks, so that they do not fill its record
 * (docs/design/contracts/07-guest-wire.md §7, "Activity").
 *
 * A look is a script that sbx runs in the guest when a person opens the changes of a VM. The command lines of
 * that script are not recorded; everything else that they start or write is, such as a hook of the
 * repository.
 */
import type { ActivityFrame } from "../../machine/guest/mod.ts";
import type { Draft, Gate } from "../../policy/mod.ts";

type FileFrame = Extract<ActivityFrame, { t: "File" }>;

/** Most looks whose first program the guest has not reported yet; older ones are recorded as programs. */
const LOOKS_MAX = 64;

/** Programs that the script runs, at the paths of the usual distributions. */
const PROGRAMS = new Set([
  "/usr/lib/git-core/git",
  "/usr/libexec/git-core/git",
  ...["/bin/", "/usr/bin/"].flatMap((folder) =>
    ["sh", "dash", "bash", "git", "mktemp", "cp", "rm", "stat", "chown"].map((name) => folder + name)
  ),
]);
/** Files, with their folders, after whose change looks are recorded: `git` may be another program then. */
const TRUSTED = new Set([...PROGRAMS, "/etc/ld.so.preload"].flatMap(withFolders));

/** An object of git. */
const ID = /^[0-9a-f]{40,64}$/;
/** The bundle in which the work leaves the guest. */
const BUNDLE = /^\/workspace\/\.sbx-out-[0-9a-f-]{36}$/;
/** A file of `mktemp`. */
const TEMPORARY = /^\/tmp\/tmp\.\w+$/;
const ANY = /[^]/;
/** Any number of words, at the end of a command line. */
const REST = "…";

/** Command lines of the script `COLLECT` of lib/repo, a pattern for each word. */
const COMMANDS: readonly (string | RegExp)[][] = [
  ["git", "rev-parse", "-q", "--git-dir"],
  ["git", "rev-parse", "-q", "--verify", /^(?:HEAD|refs\/sbx\/work)$/],
  ["git", "rev-parse", "--git-path", "index"],
  ["git", "rev-parse", /^[0-9a-f]{40,64}\^\{tree\}$/],
  ["git", "add", "-A", "."],
  ["git", "write-tree"],
  ["git", "commit-tree", ID, "-p", ID, "-m", "Uncommitted work"],
  ["git", "update-ref", "refs/sbx/out", ID],
  ["git", "cat-file", "-e", /^[0-9a-f]{40,64}\^\{commit\}$/],
  ["git", "rev-list", "-n", "1", "refs/sbx/out", REST],
  ["git", "bundle", "create", "-q", BUNDLE, "refs/sbx/out", REST],
  [/^\/usr\/lib(?:exec)?\/git-core\/git$/, "pack-objects", "--stdout", REST],
  ["git", "pack-objects", "--stdout", REST],
  ["mktemp", "-u"],
  ["cp", "-p", /(?:^|\/)index$/, TEMPORARY],
  ["rm", "-f", TEMPORARY],
  ["stat", "-c", "%u:%g", ANY],
  ["chown", "-hR", /^\d+:\d+$/, /\/\.git$/],
];

/** Files that the script writes: objects and refs in a repository or beside a folder, and their bundle. */
const WRITTEN = [
  /\/\.git\/(?:.+\/)?(?:objects|refs\/sbx)(?:\/|$)/,
  /\/\.[^/]+\.sbx-git\/(?:objects|refs\/sbx)(?:\/|$)/,
  /^\/workspace\/\.sbx-out-[0-9a-f-]{36}(?:\.lock)?$/,
  /^\/tmp\/tmp\.\w+(?:\.lock)?$/,
];

/** A program, as the guest reports it. */
interface Reported {
  executable: string;
  argv: string[];
  truncated?: boolean;
}

/** True if rules allow a draft unchanged and find nothing in it; only then may a look go unrecorded. */
export function rulesIgnore(gate: Pick<Gate, "preview">, draft: Draft): boolean {
  const { allowed, decision, findings, failures } = gate.preview(draft, true);
  return allowed && decision.rewrites.length + findings.length + failures.length === 0;
}

/** The looks at one VM, and whether its programs can still be trusted with them. */
export class Looks {
  /** first command lines of expected looks; each has a random word that no program of the guest can know */
  readonly #ordered = new Set<string>();
  #isTrusted = true;

  /** Expects a look, whose first program the host is about to start. */
  order(argv: readonly string[]): void {
    this.#ordered.add(keyOf(argv));
    if (this.#ordered.size > LOOKS_MAX) this.#ordered.delete(this.#ordered.values().next().value!);
  }

  /**
   * Whether a program is part of a look: an expected one that the guest's agent has started, or a command
   * line of the script below it.
   *
   * @param parent.isAgent it is the agent, which starts the host's programs
   * @param parent.isLook it is part of a look itself
   */
  isPartOfLook(
    { executable, argv, truncated }: Reported,
    parent: { isAgent?: boolean; isLook?: boolean },
  ): boolean {
    if (truncated || !this.#isTrusted || !PROGRAMS.has(executable)) return false;
    if (parent.isAgent) return this.#ordered.delete(keyOf(argv));
    return parent.isLook === true && COMMANDS.some((command) => matches(argv, command));
  }

  /** True if a write by a program of a look may go unrecorded. */
  mayWriteUnrecorded({ path, from }: Pick<FileFrame, "path" | "from">): boolean {
    return [path, from ?? path].every((each) => WRITTEN.some((pattern) => pattern.test(each)));
  }

  /**
   * Ends trust in the programs of looks if one of them changed. Changes by looks count too: the guest may
   * have put a link in their way.
   */
  noteChange({ path, from }: Pick<FileFrame, "path" | "from">): void {
    if (TRUSTED.has(path) || from !== undefined && TRUSTED.has(from)) this.distrust();
  }

  /** Records every look from now on: their programs may have changed unseen. */
  distrust(): void {
    this.#isTrusted = false;
  }
}

/** A path with every folder above it. */
function withFolders(path: string): string[] {
  const names = path.split("/");
  return names.slice(1).map((_, at) => names.slice(0, at + 2).join("/"));
}

const keyOf = (argv: readonly string[]) => argv.join("\0");

function matches(argv: readonly string[], command: readonly (string | RegExp)[]): boolean {
  const hasRest = command.at(-1) === REST;
  const words = hasRest ? command.slice(0, -1) : command;
  if (hasRest ? argv.length < words.length : argv.length !== words.length) return false;
  return words.every((word, at) => typeof word === "string" ? word === argv[at] : word.test(argv[at]));
}
