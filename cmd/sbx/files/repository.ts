/** A VM as a guest for lib/repo, and reports of files brought in and pulled, for several commands. */
import { basename, dirname, join } from "node:path";
import type { ExecResult, FileWritten, StateKeep, StateKept, VmInfo } from "../../../lib/client/api/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { guestGitDir } from "../../../lib/machine/live/mod.ts";
import {
  BRING_STAGES,
  bringIn,
  bringLive,
  type BroughtIn,
  type Guest,
  type GuestOutput,
  LIVE_STAGES,
  OWN,
  type Pulled,
  shown,
  type UnitWork,
  Work,
  yoursIn,
} from "../../../lib/repo/mod.ts";
import { lastWords } from "../output.ts";
import { incompleteError } from "./cp_remote.ts";

/** Longest time in which the files get their owner, in `s`. */
const OWNER_SECONDS = 600;

/** Options of commands that bring a folder in. */
export const FROM_DIR_OPTIONS: Option[] = [
  {
    name: "from-dir",
    value: "DIR",
    about: "bring this git repository or folder in (docs/guides/repositories.md)",
  },
];

/** Options of commands that bring several folders in. */
export const FROM_DIRS_OPTIONS: Option[] = [
  {
    name: "from-dir",
    value: "DIR",
    about: "bring this git repository or folder in (docs/guides/repositories.md; repeatable)",
    many: true,
  },
  {
    name: "read-only",
    value: "DIR",
    about: "bring this one in too, for reading: nothing of it comes back (repeatable)",
    many: true,
  },
];
export const BRING_OPTIONS: Option[] = [
  {
    name: "to",
    value: "PATH",
    about: "its folder in the VM; default: of DIR's name in /root, on the VM's own disk",
  },
  { name: "with-secrets", about: "also files that look like secrets, such as .env and *.pem" },
];

/** Brings a repository into a VM with a folder of this host, where that folder has one. */
export async function bringLiveFolder(client: Client, name: string): Promise<BroughtIn | undefined> {
  const guest = new VmGuest(client, name);
  const { live, workspace } = await guest.info();
  if (!live?.is_repository) return undefined;
  using progress = new Progress(LIVE_STAGES);
  const gitDir = guestGitDir({ name: basename(live.place) });
  const brought = await bringLive(guest, { ...live, room: roomOf({ workspace }), gitDir, progress });
  progress[Symbol.dispose]();
  for (const path of brought.secrets_left_out) {
    note(`sbx: ${plain(path)} looks like a secret: the VM cannot read it`);
  }
  return brought;
}

/** The folder of this host in a VM, in one line. */
export function formatLive({ dir, place, is_repository }: NonNullable<VmInfo["live"]>): string {
  const git = is_repository ? "; its repository is one of the VM" : "";
  return `${dir} = ${place} (live: the VM's writes go to this host${git})`;
}

/** Folder beside a VM's record with the files brought in. */
function roomOf({ workspace }: Pick<VmInfo, "workspace">): string {
  return join(dirname(workspace), "repository");
}

/** A VM as a place for a repository. @param vm name or id */
export class VmGuest implements Guest {
  readonly workspace = "/workspace";
  readonly #client: Client;
  readonly #path: string;

  constructor(client: Client, readonly name: string) {
    this.#client = client;
    this.#path = `/vms/${segment(name)}`;
  }

  async run(command: string[], timeout_secs: number): Promise<GuestOutput> {
    // An image may name another user, and a folder that is not there yet.
    const json = { command, timeout_secs, user: "root", cwd: "/" };
    const { exit_code, stdout, stderr } = await this.#client.json<ExecResult>("POST", `${this.#path}/exec`, {
      json,
    });
    return { code: exit_code, stdout, stderr };
  }

  async upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    let sent = 0;
    const counted = async function* () {
      for await (const chunk of bytes) {
        sent += chunk.length;
        yield chunk as Uint8Array<ArrayBuffer>;
      }
    };
    const written = await this.#client.json<FileWritten>("POST", `${this.#path}/files/content`, {
      query: { path, mode: "0600" },
      body: ReadableStream.from(counted()),
    });
    if (written.size !== sent) throw incompleteError(path, written.size, sent);
  }

  async download(path: string) {
    const { body } = await this.#client.send("GET", `${this.#path}/files/content`, { query: { path } });
    return { body: body as AsyncIterable<Uint8Array> };
  }

  async info(): Promise<VmInfo> {
    return await this.#client.json<VmInfo>("GET", `${this.#path}/info`);
  }

  async room(): Promise<string> {
    return roomOf(await this.info());
  }
}

/**
 * Brings a folder into a running VM, with a progress bar, and reports files left out.
 *
 * @param options.allowsPlain a VM without git gets the files alone
 * @param options.place its folder in the VM
 * @param options.isReadOnly nothing of it comes back
 */
export async function bringFolder(
  client: Client,
  name: string,
  dir: string,
  args: Arguments,
  { allowsPlain = false, place, isReadOnly }: {
    allowsPlain?: boolean;
    place?: string;
    isReadOnly?: boolean;
  } = {},
): Promise<BroughtIn> {
  const guest = new VmGuest(client, name);
  const { workspace, devcontainer } = await guest.info();
  using progress = new Progress(BRING_STAGES);
  const brought = await bringIn(guest, {
    dir,
    room: roomOf({ workspace }),
    place,
    isReadOnly,
    withSecrets: args.has("with-secrets"),
    allowsPlain,
    progress,
  });
  if (devcontainer?.user !== undefined) await giveTo(guest, devcontainer.user, brought.place);
  progress[Symbol.dispose]();
  reportLeftOut(brought);
  return brought;
}

/**
 * Gives a folder to a user. Links are not followed: they may lead anywhere.
 * @throws {SbxError} `devcontainer.user`
 */
async function giveTo(guest: VmGuest, user: string, place: string): Promise<void> {
  const [name, group] = user.split(":");
  const { code, stderr } = await guest.run(
    ["/bin/sh", "-c", OWN, "sbx-repository", name, group ?? "", place],
    OWNER_SECONDS,
  );
  if (code === 0) return;
  throw new SbxError(
    "devcontainer.user",
    `the files cannot belong to the user "${user}": ${lastWords(stderr)}`,
    {
      hint: "name a user that the image has: remoteUser of devcontainer.json",
    },
  );
}

/**
 * Collects the work of a running VM; to be disposed.
 * @param paths only of the repositories that these name, where several are
 */
export async function collectWork(client: Client, name: string, paths: string[] = []): Promise<Work> {
  const guest = new VmGuest(client, name);
  return await Work.collect(guest, await guest.room(), paths);
}

/**
 * Keeps the state of a running VM's repositories, for sbx undo. Never fails: the work must not depend on it.
 */
export async function keepState(client: Client, name: string, reason: string): Promise<void> {
  const json: StateKeep = { reason };
  try {
    await client.json<StateKept>("POST", `/vms/${segment(name)}/states/keep`, { json });
  } catch (error) {
    note(`sbx: sbx undo cannot come back to here: ${plain((error as Error).message)}`);
  }
}

function reportLeftOut({ secrets_left_out, secrets_committed, left_out, is_plain }: BroughtIn): void {
  if (is_plain) note("sbx: the image has no git: the files went in without history, and come back by sbx cp");
  for (const path of secrets_left_out) {
    note(`sbx: left out ${plain(path)}: looks like a secret (--with-secrets takes it)`);
  }
  for (const path of secrets_committed) {
    note(`sbx: ${plain(path)} looks like a secret and is in a commit: the VM has it`);
  }
  for (const path of left_out) note(`sbx: left out ${plain(path)}`);
}

/** The files brought in, in one line. */
export function formatBrought(
  { dir, place, branch, head, has_changes, submodules, is_repository, is_read_only }: BroughtIn,
): string {
  const parts = [
    is_repository
      ? branch ? `branch ${branch}` : `commit ${head?.slice(0, 12)}`
      : "a folder without a repository",
    ...is_repository && has_changes ? ["with uncommitted changes"] : [],
    ...submodules.length > 0 ? [count(submodules.length, "submodule")] : [],
    ...is_read_only ? ["read-only: nothing comes back"] : [],
  ];
  return `${dir} → ${place} (${parts.join(", ")})`;
}

/** Most files that a line names. */
const NAMED_MAX = 3;

/**
 * The result of a pull, and the person's own uncommitted files in it, in lines.
 *
 * @param isKept false: the VM goes, and nothing more can be pulled
 */
export async function describePulled(
  pulled: Pulled,
  work: Pick<Work, "units" | "vm">,
  isKept = true,
): Promise<string> {
  const lines = [formatPulled(pulled, work)];
  for (const { repository, path, branch, commit } of pulled.branches) {
    const unit = unitOf(work, repository, path);
    const yours = unit.source.is_live ? [] : await yoursIn(unit, commit);
    if (yours.length === 0) continue;
    const names = yours.slice(0, NAMED_MAX).join(", ");
    const rest = yours.length > NAMED_MAX ? ` and ${count(yours.length - NAMED_MAX, "other")}` : "";
    lines.push(
      `${branch} also has what you had not committed of ${names}${rest}: commit that before git merge` +
        (isKept ? `, or sbx pull ${work.vm} --apply` : ""),
    );
  }
  return lines.join("\n");
}

function unitOf({ units }: Pick<Work, "units">, repository: string, path: string): UnitWork {
  return units.find(({ source, unit }) => source.name === repository && unit.path === path)!;
}

/** The result of a pull, in lines. */
function formatPulled(
  { branches, folder, is_unchanged }: Pulled,
  work: Pick<Work, "units">,
): string {
  if (is_unchanged) return "the VM changed nothing";
  const lines = branches.map(({ repository, path, branch, commits }) => {
    const { label, source, dir } = unitOf(work, repository, path);
    const merge = label === "" || label === path
      ? `git merge ${branch}`
      : `git -C ${quoted(dir)} merge ${branch}`;
    return `${label === "" ? "" : `${shown(label)}: `}branch ${branch}: ${count(commits, "commit")}; ${
      source.is_live
        ? `git reset ${branch} takes them, whose files you have, if your branch has no commits since`
        : `${merge} takes them`
    }`;
  });
  if (folder) {
    lines.push(`wrote ${count(folder.written.length, "file")}, removed ${folder.removed.length}`);
    lines.push(
      ...folder.conflicts.map((path) => `conflict: ${path} was changed here too, and stays as it is`),
    );
  }
  return lines.length > 0 ? lines.join("\n") : "nothing was taken";
}

/** A path as a word of a shell. */
function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
