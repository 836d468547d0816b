/** The VM from the host's side: programs, and files of its workspace that carry bundles. */
import { basename, dirname } from "node:path";
import { ignore, SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { GUEST_WORKSPACE } from "../event/mod.ts";
import { STEP_SECONDS } from "./limit.ts";
import type { Room } from "./store.ts";

/** Output of a program in the guest; all of it is the guest's own word. */
export interface GuestOutput {
  code: number;
  stdout: string;
  stderr: string;
}

/** What bringing in and back needs of a VM. */
export interface Guest {
  /** name of the VM */
  name: string;
  /** path of its workspace in the guest */
  workspace: string;
  /** Runs a program as root, for at most `seconds`. */
  run(argv: string[], seconds: number): Promise<GuestOutput>;
  /** Writes a file of the workspace, of any size. */
  upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Reads a file of the workspace. */
  download(path: string): Promise<{ size?: number; body: AsyncIterable<Uint8Array> }>;
}

const SHELL = ["/bin/sh", "-c"];

/** Exit codes of the scripts and their meanings. */
const REASONS: Record<number, [code: string, message: string, hint: string]> = {
  96: [
    "repo.guest_git",
    "the VM has no git",
    'add "git" to [packages] apt of its profile, and build its image',
  ],
  97: ["repo.exists", "the folder exists in the VM and is not empty", "give another place: --to PATH"],
  98: [
    "repo.diverged",
    "the VM has work of its own: its files were left as they are",
    "the new commits are there as host/BRANCH: merge them in the VM, or pull its work first",
  ],
  99: [
    "repo.guest_missing",
    "the folder that was brought in is gone from the VM",
    "bring it in again: sbx push DIR NAME",
  ],
};

/**
 * Runs a script with the shell of the guest.
 *
 * @throws {SbxError} `repo.*` of {@linkcode REASONS}; `repo.guest_failed`: with the last words of the guest
 */
export async function runScript(
  guest: Guest,
  script: string,
  args: string[],
  seconds: number,
  shell = SHELL,
): Promise<string> {
  const { code, stdout, stderr } = await guest.run(
    [...shell, script, "sbx-repository", ...args],
    seconds,
  );
  if (code === 0) return stdout;
  const reason = REASONS[code];
  if (reason) throw new SbxError(reason[0], `"${guest.name}": ${reason[1]}`, { hint: reason[2] });
  const words = plain(stderr.trim().split("\n").slice(-3).join(" "));
  throw new SbxError("repo.guest_failed", `git in "${guest.name}" failed: ${words || `exit code ${code}`}`, {
    hint: `sbx shell ${guest.name} to look at it; a full disk is the usual reason (df -h)`,
  });
}

// Scripts that run in the guest. Their output is the guest's word and is checked on the host.

/**
 * The tree of the files of the current repository as they are, without a change of its index.
 * Its copy keeps the index's time: git reads a file again that may have changed in the second
 * in which the index was written.
 */
const SNAPSHOT = `
snapshot() {
  index=$(mktemp -u)
  cp -p "$(git rev-parse --git-path index)" "$index" 2>/dev/null || :
  GIT_INDEX_FILE=$index git add -A . 2>/dev/null
  GIT_INDEX_FILE=$index git write-tree
  rm -f "$index"
}
`;

/** First lines of every script. Each then removes the file that carried its bytes, at any exit. */
const HEAD = `set -eu
command -v git >/dev/null || exit 96
umask 022
# The folder may belong to another user, as may the files that git makes there.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
own() {
  owner=$(stat -c %u:%g "$1")
  [ "$owner" = 0:0 ] || chown -hR "$owner" "$1/.git"
}
`;

/** New repository. dir bundle head branch work format shallow name email */
export const CLONE = `${HEAD}
dir=$1 bundle=$2 head=$3 branch=$4 work=$5 format=$6 shallow=$7 name=$8 email=$9
trap 'rm -f "$bundle"' EXIT
if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then exit 97; fi
made=; [ -e "$dir" ] || made=$dir
mkdir -p "$dir"
undo() { rm -f "$bundle"; cd /; rm -rf "$dir/.git"; [ -z "$made" ] || rm -rf "$made"; }
trap 'undo' EXIT
git init -q --object-format="$format" "$dir"
cd "$dir"
[ -z "$shallow" ] || printf '%s\\n' $shallow >.git/shallow
git fetch -q --update-head-ok --no-write-fetch-head --no-tags "$bundle" '+refs/*:refs/*'
if [ -n "$branch" ]; then git symbolic-ref HEAD "refs/heads/$branch"; else git update-ref --no-deref HEAD "$head"; fi
git read-tree --reset -u "$work"
git read-tree "$head"
git update-index -q --refresh || :
[ -z "$name" ] || git config user.name "$name"
[ -z "$email" ] || git config user.email "$email"
trap 'rm -f "$bundle"' EXIT
`;

/**
 * New repository for existing files, in a folder of its own that a `.git` file points to. Files of the state
 * that cannot be seen stay unchanged in every commit. dir bundle head branch work format shallow name email
 * git-dir
 */
export const LIVE = `${HEAD}
dir=$1 bundle=$2 head=$3 branch=$4 work=$5 format=$6 shallow=$7 name=$8 email=$9
shift 9; store=$1
trap 'rm -f "$bundle"' EXIT
if [ -e "$store" ]; then exit 97; fi
undo() { rm -f "$bundle"; rm -rf "$store"; }
trap 'undo' EXIT
git init -q --bare --object-format="$format" "$store"
git --git-dir="$store" config core.bare false
git --git-dir="$store" config core.worktree "$dir"
git --git-dir="$store" config core.untrackedCache true
cd "$dir"
[ -z "$shallow" ] || printf '%s\\n' $shallow >"$store/shallow"
git fetch -q --update-head-ok --no-write-fetch-head --no-tags "$bundle" '+refs/*:refs/*'
if [ -n "$branch" ]; then git symbolic-ref HEAD "refs/heads/$branch"; else git update-ref --no-deref HEAD "$head"; fi
git read-tree --reset "$head"
[ -z "$name" ] || git config user.name "$name"
[ -z "$email" ] || git config user.email "$email"
git ls-tree -r -z --name-only "$work" | xargs -0 -r sh -c 'for path; do
  [ -e "$path" ] || [ -L "$path" ] || git update-index --skip-worktree -- "$path" 2>/dev/null || :
done' sh
git update-index -q --refresh || :
trap 'rm -f "$bundle"' EXIT
`;

/** A repository again. dir bundle head branch work old-head old-tree */
export const AGAIN = `${HEAD}${SNAPSHOT}
dir=$1 bundle=$2 head=$3 branch=$4 work=$5 old=$6 tree=$7
trap '[ -z "$bundle" ] || rm -f "$bundle"' EXIT
cd "$dir" 2>/dev/null || exit 99
git rev-parse -q --verify HEAD >/dev/null || exit 99
[ -z "$bundle" ] || git fetch -q --no-write-fetch-head --no-tags "$bundle" '+refs/heads/*:refs/remotes/host/*' \\
  '+refs/tags/*:refs/tags/*' '+refs/sbx/*:refs/sbx/*'
[ "$(git rev-parse HEAD)" = "$old" ] && [ "$(snapshot)" = "$tree" ] || exit 98
git read-tree --reset -u "$work"
if [ -n "$branch" ]; then
  git symbolic-ref HEAD "refs/heads/$branch"
  git update-ref "refs/heads/$branch" "$head"
else git update-ref --no-deref HEAD "$head"; fi
git read-tree "$head"
git update-index -q --refresh || :
`;

/** A folder without a repository, repeatable. dir archive store attributes old-tree new-tree */
export const UNPACK = `${HEAD}
dir=$1 archive=$2 store=$3 attributes=$4 old=$5 new=$6
trap 'rm -f "$archive"' EXIT
if [ -z "$old" ] && [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then exit 97; fi
mkdir -p "$dir" "$store"
[ -e "$store/HEAD" ] || git init -q --bare --template= "$store"
export GIT_DIR="$store" GIT_WORK_TREE="$dir"
mkdir -p "$store/info"; printf '%s\\n' "$attributes" >"$store/info/attributes"
cd "$dir"
tree() { rm -f "$store/index"; git add -A . 2>/dev/null; git write-tree; }
if [ -n "$old" ]; then
  [ "$(tree)" = "$old" ] || exit 98
  git ls-files -z | xargs -0 -r rm -f --
fi
tar -x --no-same-owner -f "$archive" -C "$dir"
[ "$(tree)" = "$new" ] || { echo "the files did not arrive as they were sent; was one changed meanwhile?" >&2; exit 1; }
commit=$(GIT_AUTHOR_NAME=sbx GIT_AUTHOR_EMAIL=sbx@localhost GIT_COMMITTER_NAME=sbx GIT_COMMITTER_EMAIL=sbx@localhost \\
  GIT_AUTHOR_DATE=2001-01-01T00:00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit-tree "$new" -m 'Uncommitted changes')
git update-ref refs/sbx/work "$commit"
`;

/** The shell of sbx's own layer: an image may have none. */
const LAYER_SHELL = ["/usr/lib/sbx/bin/busybox", "sh", "-c"];

const HAS_GIT = "command -v git";

/** Tests whether a VM, whose image may be anybody's, has git. */
export async function hasGit(guest: Guest): Promise<boolean> {
  const { code } = await guest.run([...LAYER_SHELL, HAS_GIT], STEP_SECONDS);
  // Without the layer the image is one of sbx, which has git or says so.
  return code !== 127 && code !== 1;
}

/** The files alone, for a VM without git. dir archive */
const PLAIN = `set -eu
dir=$1 archive=$2
trap 'rm -f "$archive"' EXIT
if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then exit 97; fi
mkdir -p "$dir"
tar -x -o -f "$archive" -C "$dir"
`;

/**
 * Unpacks an archive into a folder, by programs of sbx's layer.
 * @throws {SbxError} as {@linkcode runScript}
 */
export async function unpackPlain(guest: Guest, place: string, archive: string): Promise<void> {
  await runScript(guest, PLAIN, [place, archive], STEP_SECONDS, LAYER_SHELL);
}

/** Makes the bundle of new work. dir bundle store known… ; prints "head work", and "-" for no news. */
const COLLECT = `${HEAD}${SNAPSHOT}
dir=$1 bundle=$2 store=$3; shift 3
cd "$dir" 2>/dev/null || exit 99
if [ -n "$store" ]; then export GIT_DIR="$store" GIT_WORK_TREE="$dir"; else trap 'own "$dir" || :' EXIT; fi
git rev-parse -q --git-dir >/dev/null 2>&1 || exit 99
export GIT_COMMITTER_NAME=sbx GIT_COMMITTER_EMAIL=sbx@localhost GIT_AUTHOR_NAME=sbx GIT_AUTHOR_EMAIL=sbx@localhost
if [ -n "$store" ]; then head=$(git rev-parse -q --verify refs/sbx/work || :)
else head=$(git rev-parse -q --verify HEAD || :); fi
[ -n "$head" ] || exit 99
tree=$(snapshot)
work=$head
[ "$tree" = "$(git rev-parse "$head^{tree}")" ] || work=$(git commit-tree "$tree" -p "$head" -m "Uncommitted work")
git update-ref refs/sbx/out "$work"
not=
for known; do if git cat-file -e "$known^{commit}" 2>/dev/null; then not="$not ^$known"; fi; done
if [ -z "$(git rev-list -n 1 refs/sbx/out $not)" ]; then echo "$head $work -"; exit 0; fi
git bundle create -q "$bundle" refs/sbx/out $not
echo "$head $work"
`;

/**
 * Runs {@linkcode COLLECT} after all others in this VM: each moves the one ref that its bundle is made of.
 * @returns its output
 */
export async function collectIn(guest: Guest, room: Room, args: string[], seconds: number): Promise<string> {
  using _lock = await room.lock("collect");
  return await runScript(guest, COLLECT, args, seconds);
}

/** Which commits are there; prints them. dir store commit… */
export const HAVE = `${HEAD}
dir=$1 store=$2; shift 2
cd "$dir" 2>/dev/null || exit 0
if [ -n "$store" ]; then export GIT_DIR="$store" GIT_WORK_TREE="$dir"; else [ -e .git ] || exit 0; fi
for id; do if git cat-file -e "$id^{commit}" 2>/dev/null; then echo "$id"; fi; done
`;

/** Branch that is checked out; prints nothing without one. dir */
export const BRANCH = `${HEAD}
cd "$1" && git symbolic-ref -q --short HEAD || :
`;

/**
 * An earlier state: its files, and of a repository the branch and commit that were checked out. Ignored files
 * stay. A repository that was removed is made again. dir bundle store head branch tip format shallow
 */
export const REWIND = `${HEAD}
dir=$1 bundle=$2 store=$3 head=$4 branch=$5 tip=$6 format=$7 shallow=$8
trap 'rm -f "$bundle"' EXIT
mkdir -p "$dir"
cd "$dir"
if [ -n "$store" ]; then
  [ -e "$store/HEAD" ] || git init -q --bare --template= --object-format="$format" "$store"
  export GIT_DIR="$store" GIT_WORK_TREE="$dir"
else
  trap 'rm -f "$bundle"; own "$dir" || :' EXIT
  if ! [ -e .git ]; then
    git init -q --object-format="$format" .
    [ -z "$shallow" ] || printf '%s\\n' $shallow >.git/shallow
  fi
fi
git fetch -q --update-head-ok --no-write-fetch-head --no-tags "$bundle" '+refs/sbx/undo:refs/sbx/undo'
index=$(mktemp -u)
cp -p "$(git rev-parse --git-path index)" "$index" 2>/dev/null || :
export GIT_INDEX_FILE=$index
git add -A . 2>/dev/null
git read-tree --reset -u "$tip"
unset GIT_INDEX_FILE
rm -f "$index"
if [ -n "$store" ]; then
  git update-ref refs/sbx/work "$head"
else
  if [ -n "$branch" ]; then
    git symbolic-ref HEAD "refs/heads/$branch"
    git update-ref "refs/heads/$branch" "$head"
  else git update-ref --no-deref HEAD "$head"; fi
  git read-tree "$head"
  git update-index -q --refresh || :
fi
`;

const REMOVE = ["rm", "-f", "--"];
/** Name of a file of the workspace that carries a bundle out. */
const CARRIED = /^\.sbx-out-[0-9a-f-]{36}$/;

/** A new name for a bundle in the workspace. */
export function carriedName(): string {
  return `.sbx-out-${crypto.randomUUID()}`;
}

/** Removes a bundle from the workspace. */
export async function removeCarried(guest: Guest, name: string, seconds: number): Promise<void> {
  await guest.run([...REMOVE, `${guest.workspace}/${name}`], seconds).catch(
    ignore("the VM has ended, and the file with it"),
  );
}

/** Gives a folder to a user of an image. user group dir */
export const OWN = 'group=${2:-$(id -g "$1" 2>/dev/null || echo "$1")} && chown -hR "$1:$group" "$3"';

/** Effect of one of sbx's own programs: it brings files in, or reads the work in the VM. */
export type RepositoryWork = "bring" | "read";

/** Scripts by their text. They are recognized, so that no client can give the mark to programs of its own. */
const WORK = new Map<string, RepositoryWork>([
  ...[CLONE, LIVE, AGAIN, UNPACK, PLAIN, REWIND, OWN].map((script) => [script, "bring"] as const),
  ...[HAS_GIT, COLLECT, HAVE, BRANCH].map((script) => [script, "read"] as const),
]);

/** The work of a program that the host starts; `undefined`: not one of sbx's own scripts. */
export function repositoryWork(argv: readonly string[]): RepositoryWork | undefined {
  if (argv.slice(0, -1).join("\0") === REMOVE.join("\0")) {
    const [folder, name] = [dirname(argv.at(-1)!), basename(argv.at(-1)!)];
    return folder === GUEST_WORKSPACE && CARRIED.test(name) ? "read" : undefined;
  }
  const at = argv.indexOf("-c");
  const shell = argv.slice(0, at + 1).join("\0");
  if (shell !== SHELL.join("\0") && shell !== LAYER_SHELL.join("\0")) return undefined;
  return WORK.get(argv[at + 1]);
}
