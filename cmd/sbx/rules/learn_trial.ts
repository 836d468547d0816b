/**
 * Trials of `sbx learn --minimise`: the commands of a session, repeated in a VM of their own under a profile.
 */
import { dirname, join } from "node:path";
import { ifFound, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { blake3File } from "../../../lib/base/hash/mod.ts";
import { type Home, home, lockWithin } from "../../../lib/base/home/mod.ts";
import type { ExecResult, FileWritten, VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { newTrialId, profilePath, saveProfile, trialsDir } from "../../../lib/config/profile/mod.ts";
import type { LabSession } from "../../../lib/lab/mod.ts";
import type { RecordedCommand, RecordedFile } from "../../../lib/lab/learn/mod.ts";
import { vmPaths } from "../../../lib/session/files/mod.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";

/** Longest run of one command, in `s`. */
const COMMAND_SECS = 300;
/** Exit code of a blocked program, and here of a blocked file (docs/design/contracts/02-http.md §2). */
const NOT_PERMITTED = 126;
/** Longest wait for the lock of a new file, in `ms`. */
const LOCK_MS = 100;
/** Signals by which people end a search, and their numbers. */
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;

/** A step of a session: a command that was run, or a file that was brought in. */
type Step = { command: RecordedCommand } | { file: RecordedFile };

/** A step that ended differently in a trial than in its session. */
export interface Difference {
  step: Step;
  exit_code: number;
  /** standard error of the program, or the error of the file */
  message: string;
}

/** Parts of the session's VM that trials need: its image, and copies of the files that were brought in. */
export interface TrialSource {
  /** reference of the image that it was made of; absent: trials have the image of the profile */
  image?: string;
  /** returns the path of the copy of a file's content */
  copyOf(file: RecordedFile): string;
  /** requires that copy. @throws {SbxError} `learn.not_repeatable`: it is gone, or was too large to keep */
  require(file: RecordedFile): Promise<void>;
}

/** Finds the VM of a session, also one that was deleted less than a day ago. */
export async function sourceOf(client: Client, session: LabSession): Promise<TrialSource> {
  let id = "";
  for await (const { common } of session.events) {
    id = common.session_id;
    break;
  }
  const { dir, sessionsDir } = home();
  const info = await client.json<VmInfo>("GET", `/vms/${segment(id)}/info`).catch(
    ignore("the VM is deleted: a trial has the image of the profile"),
  );
  // A deleted VM's files are kept for a day.
  const vm = join(info ? sessionsDir : join(dir, "deleted"), id);
  const copyOf = ({ blake3 }: RecordedFile) => join(vmPaths(vm).brought, blake3!);
  return {
    ...info?.image?.reference !== undefined && { image: info.image.reference },
    copyOf,
    async require(file) {
      if (file.blake3 === undefined || await exists(copyOf(file))) return;
      throw new SbxError("learn.not_repeatable", `sbx has no copy of "${file.path}", which was brought in`, {
        hint:
          "copies go with the VM, and the first 256 MiB of a VM are kept: record a session with less, or learn without --minimise",
      });
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return await ifFound(Deno.lstat(path)) !== undefined;
}

/**
 * The trials of one search, one after another. Their VM and profile are removed at its end, also after
 * ctrl-C; after a kill the service removes them, whose sweep the lock holds off until then.
 */
export class Trials implements AsyncDisposable {
  readonly #client: Client;
  readonly #lock: Deno.FsFile;
  readonly #source: TrialSource;
  /** the VM of the trial under way */
  #vm?: Promise<VmSummary>;
  readonly #signalListeners: (() => void)[] = [];

  /** @param id of the trials' profile, and name of their VM */
  private constructor(client: Client, readonly id: string, lock: Deno.FsFile, source: TrialSource) {
    this.#client = client;
    this.#source = source;
    this.#lock = lock;
    for (const [signal, number] of Object.entries(SIGNALS)) {
      const stop = () => void this.#stop(128 + number);
      Deno.addSignalListener(signal as Deno.Signal, stop);
      this.#signalListeners.push(() => Deno.removeSignalListener(signal as Deno.Signal, stop));
    }
  }

  static async begin(client: Client, source: TrialSource): Promise<Trials> {
    await Deno.mkdir(trialsDir(home()), { recursive: true, mode: 0o700 });
    const id = newTrialId();
    const path = join(trialsDir(home()), id);
    // Locked before it has its name: the service removes an unlocked one.
    const lock = await Deno.open(`${path}.new`, { write: true, createNew: true, mode: 0o600 });
    await lockWithin(lock, LOCK_MS);
    await Deno.rename(`${path}.new`, path);
    return new Trials(client, id, lock, source);
  }

  /** Repeats steps in a fresh VM under a profile of this text. @returns the first that ended differently */
  async run(steps: readonly Step[], text: string): Promise<Difference | undefined> {
    const { id } = this;
    const { image } = this.#source;
    await saveProfile(home(), id, text);
    try {
      const json = { name: id, profile_id: id, persistent: false, ...image !== undefined && { image } };
      const vm = await (this.#vm = this.#client.json<VmSummary>("POST", "/vms/create", { json }));
      await waitUntilRunning(this.#client, vm);
      for (const step of steps) {
        const difference = "file" in step
          ? await this.#bring(vm, step, step.file)
          : await this.#exec(vm, step, step.command);
        if (difference) return difference;
      }
      return undefined;
    } finally {
      await this.#removeTrial();
    }
  }

  async #exec(vm: VmSummary, step: Step, command: RecordedCommand): Promise<Difference | undefined> {
    const { argv, cwd, isOwn } = command;
    const { exit_code, stderr } = await this.#client.json<ExecResult>(
      "POST",
      `/vms/${segment(vm.id)}/exec`,
      { json: { command: argv, cwd, timeout_secs: COMMAND_SECS, ...isOwn && { user: "root" } } },
    );
    return exit_code === command.exit_code ? undefined : { step, exit_code, message: stderr };
  }

  async #bring(vm: VmSummary, step: Step, file: RecordedFile): Promise<Difference | undefined> {
    const { path, kind, mode } = file;
    const type = { file: {}, folder: { type: "directory" }, link: { type: "symlink" } }[kind];
    const query = { path, ...type, ...kind === "file" && mode !== undefined && { mode } };
    const body = kind === "folder" ? undefined : (await this.#content(file)).readable;
    try {
      await this.#client.json<FileWritten>("POST", `/vms/${segment(vm.id)}/files/content`, { query, body });
      return undefined;
    } catch (error) {
      if (!(error instanceof SbxError) || error.code !== "policy.blocked") throw error;
      return { step, exit_code: NOT_PERMITTED, message: error.message };
    }
  }

  /** Opens the copy of a file's content. @throws {SbxError} `learn.not_repeatable`: it is not as recorded */
  async #content(file: RecordedFile): Promise<Deno.FsFile> {
    const path = this.#source.copyOf(file);
    await this.#source.require(file);
    if ((await blake3File(path)).hash !== file.blake3) {
      throw new SbxError("learn.not_repeatable", `the copy of "${file.path}" is not the file of the record`, {
        hint: `remove "${path}", and record another session`,
      });
    }
    return await Deno.open(path);
  }

  async #removeTrial(): Promise<void> {
    const vm = await this.#vm?.catch(ignore("it was not made, which the trial reports"));
    this.#vm = undefined;
    await removeTrial(this.#client, home(), this.id, vm?.id);
  }

  /** Cleans up, then ends this program as its signal would have. */
  async #stop(code: number): Promise<void> {
    try {
      await this[Symbol.asyncDispose]();
    } finally {
      Deno.exit(code);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const remove of this.#signalListeners.splice(0)) remove();
    await this.#removeTrial();
    await Deno.remove(join(trialsDir(home()), this.id));
    this.#lock.close();
  }
}

/** Removes a trial's VM and profile; either may be gone already. */
async function removeTrial(client: Client, at: Home, id: string, vm: string | undefined): Promise<void> {
  if (vm !== undefined) {
    await client.json("DELETE", `/vms/${segment(vm)}/delete?force=true`).catch((error) => {
      if (error.code !== "vm.not_found") throw error;
    });
  }
  await ifFound(Deno.remove(dirname(profilePath(at, id)), { recursive: true }));
}
