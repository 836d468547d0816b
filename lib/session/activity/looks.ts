/**
 * Looks of sbx at a VM's work, for a person who reads it (docs/design/contracts/07-guest-wire.md §7,
 * "Activity"): a script of sbx whose own command lines are no events of the VM. Everything else that
 * one of them starts or writes is.
 */
import type { ActivityFrame } from "../../machine/guest/mod.ts";
import type { Draft, Gate } from "../../policy/mod.ts";

type FileFrame = Extract<ActivityFrame, { t: "File" }>;

/** Most looks whose first program the guest has not reported; the oldest are forgotten, and recorded. */
const LOOKS_MAX = 64;

/** Programs of the script, where distributions have them. */
const PROGRAMS = new Set([
  "/usr/lib/git-core/git",
  "/usr/libexec/git-core/git",
  ...["/bin/", "/usr/bin/"].flatMap((folder) =>
    ["sh", "dash", "bash", "git", "mktemp", "cp", "rm", "stat", "chown"].map((name) => folder + name)
  ),
]);
/**
 * A look is recorded after a change of one of these or of a folder above: it may not be
 * the program of its name any more.
 */
const TRUSTED = new Set([...PROGRAMS, "/etc/ld.so.preload"].flatMap(withFolders));

const ID = /^[0-9a-f]{40,64}$/;
const OUT = /^\/workspace\/\.sbx-out-[0-9a-f-]{36}$/;
const TEMPORARY = /^\/tmp\/tmp\.\w+$/;
const ANY = /[^]/;
const REST = "…";

/** The command lines of the script `COLLECT` of lib/repo; {@linkcode REST} is any number of words. */
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
  ["git", "bundle", "create", "-q", OUT, "refs/sbx/out", REST],
  [/^\/usr\/lib(?:exec)?\/git-core\/git$/, "pack-objects", "--stdout", REST],
  ["git", "pack-objects", "--stdout", REST],
  ["mktemp", "-u"],
  ["cp", "-p", /(?:^|\/)index$/, TEMPORARY],
  ["rm", "-f", TEMPORARY],
  ["stat", "-c", "%u:%g", ANY],
  ["chown", "-hR", /^\d+:\d+$/, /\/\.git$/],
];

/** Objects and refs of sbx in a repository or beside a folder, and the file that carries them. */
const WRITTEN = [
  /\/\.git\/(?:.+\/)?(?:objects|refs\/sbx)(?:\/|$)/,
  /\/\.[^/]+\.sbx-git\/(?:objects|refs\/sbx)(?:\/|$)/,
  /^\/workspace\/\.sbx-out-[0-9a-f-]{36}(?:\.lock)?$/,
  /^\/tmp\/tmp\.\w+(?:\.lock)?$/,
];

/** A program that the guest reports. */
interface Reported {
  executable: string;
  argv: string[];
  truncated?: boolean;
}

/**
 * Whether rules let something happen as it is and find nothing in it: a look of sbx at
 * the VM's work is then no event.
 */
export function isFree(gate: Pick<Gate, "preview">, draft: Draft): boolean {
  const { allowed, decision, findings, failures } = gate.preview(draft, true);
  return allowed && decision.rewrites.length + findings.length + failures.length === 0;
}

export class Looks {
  /** command lines that the host has ordered, each with a name that no program of the guest can know */
  readonly #ordered = new Set<string>();
  #isTrusted = true;

  /** The host is about to have a program run. */
  order(argv: readonly string[]): void {
    this.#ordered.add(keyOf(argv));
    if (this.#ordered.size > LOOKS_MAX) this.#ordered.delete(this.#ordered.values().next().value!);
  }

  /**
   * Whether a program is part of a look.
   *
   * @param parent.isAgent it runs the host's programs
   * @param parent.isLook it is part of a look itself
   */
  takes({ executable, argv, truncated }: Reported, parent: { isAgent?: boolean; isLook?: boolean }): boolean {
    if (truncated || !this.#isTrusted || !PROGRAMS.has(executable)) return false;
    if (parent.isAgent) return this.#ordered.delete(keyOf(argv));
    return parent.isLook === true && COMMANDS.some((command) => matches(argv, command));
  }

  /** Whether a program of a look may write there without an event. */
  writes({ path, from }: Pick<FileFrame, "path" | "from">): boolean {
    return [path, from ?? path].every((each) => WRITTEN.some((pattern) => pattern.test(each)));
  }

  /** A program of the guest has changed a file; one of a look too, where the guest put a link in its way. */
  changed({ path, from }: Pick<FileFrame, "path" | "from">): void {
    if (TRUSTED.has(path) || from !== undefined && TRUSTED.has(from)) this.distrust();
  }

  /** The programs of looks may have changed. */
  distrust(): void {
    this.#isTrusted = false;
  }
}

/** A path, and the folders above it. */
function withFolders(path: string): string[] {
  const names = path.split("/");
  return names.slice(1).map((_, at) => names.slice(0, at + 2).join("/"));
}

const keyOf = (argv: readonly string[]) => argv.join("\0");

function matches(argv: readonly string[], command: readonly (string | RegExp)[]): boolean {
  const isOpen = command.at(-1) === REST;
  const words = isOpen ? command.slice(0, -1) : command;
  if (isOpen ? argv.length < words.length : argv.length !== words.length) return false;
  return words.every((word, at) => typeof word === "string" ? word === argv[at] : word.test(argv[at]));
}
