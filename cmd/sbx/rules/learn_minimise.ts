/** sbx learn --minimise: a learned profile without the rules that its session's commands do not need. */
import { ifFound, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import type { LabSession } from "../../../lib/lab/mod.ts";
import {
  checkProfile,
  type LearnedProfile,
  minimise,
  OWN_PROGRAMS,
  profileRules,
  type RecordedCommand,
  type RecordedFile,
  stepsOf,
  without,
} from "../../../lib/lab/learn/mod.ts";
import {
  newTrialId,
  parseProfile,
  profilePath,
  saveProfile,
  trialsDir,
} from "../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { connect } from "../connect.ts";
import type { ExecResult, FileWritten, VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Home, home, lockWithin } from "../../../lib/base/home/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { dirname, join } from "node:path";
import { blake3File } from "../../../lib/base/hash/mod.ts";
import { vmPaths } from "../../../lib/session/files/mod.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";

/** The rules left out, and the search that found them. */
export interface Minimised {
  commands: number;
  /** VMs in which they were run */
  runs: number;
  /** false: the bound was reached, and more may be left out */
  complete: boolean;
  /** ids of the rules that were left out */
  left_out: string[];
}

/**
 * @param runs most VMs
 * @throws {SbxError} `learn.commands`; `learn.not_repeatable`: the commands do not
 * even pass under the whole profile
 */
export async function leastProfile(
  learned: LearnedProfile,
  session: () => LabSession,
  runs: number,
): Promise<LearnedProfile & { minimised: Minimised }> {
  const { steps, commands } = await stepsOf(session().events);
  const client = await connect();
  const source = await sourceOf(client, session());
  for (const step of steps) if ("file" in step) await source.require(step.file);
  await using trials = await Trials.begin(client, source);
  const { id } = trials;
  const allIds = learned.rules.map((rule) => rule.id);
  // Not on trial: a person brings files in and takes work out by them, which no command shows.
  const own = learned.rules.filter(({ match }) => match.includes(OWN_PROGRAMS)).map((rule) => rule.id);
  const onTrial = allIds.filter((each) => !own.includes(each));
  const leftOut = (kept: readonly string[]) => allIds.filter((each) => !kept.includes(each));
  const stageOf = (trial: number) => `trial ${trial} of at most ${runs}`;
  using progress = new Progress(
    Array.from({ length: runs }, (_, at) => ({ name: stageOf(at + 1), weight: 1 })),
  );
  let trial = 0;
  const differs = async (kept: readonly string[]) => {
    progress.stage(stageOf(++trial));
    const text = without(learned, leftOut(kept), { id, strict: true });
    return await trials.run(steps, text);
  };
  const first = await differs(allIds);
  if (first) throw notRepeatable(first);
  const found = await minimise(onTrial, async (kept) => !await differs([...own, ...kept]), runs - 1);
  const kept = [...own, ...found.kept];
  const left_out = leftOut(kept);
  // As the trials had it: a question would hold up a command that ends without the event.
  const text = without(learned, left_out, { id: learned.id, strict: true });
  const rules = profileRules(parseProfile(parseToml(text, `profile ${learned.id}`), {
    id: learned.id,
    source: "user",
  }));
  return {
    ...learned,
    text,
    rules: learned.rules.filter(({ id }) => kept.includes(id)),
    check: await checkProfile(rules, [session()]),
    minimised: { commands, runs: found.runs + 1, complete: found.isComplete, left_out },
  };
}

function notRepeatable({ step, exit_code, message }: Difference): SbxError {
  const hint =
    "the commands have to find all that they need in a fresh VM with the files that were brought in; or learn without --minimise";
  const line = message.trim().split("\n").at(-1) ?? "";
  if ("file" in step) {
    return new SbxError("learn.not_repeatable", `a fresh VM refused "${step.file.path}": ${line}`, { hint });
  }
  const { argv, isOwn, exit_code: recorded } = step.command;
  const what = isOwn ? "bringing the repository or folder in" : `"${argv.join(" ")}"`;
  return new SbxError(
    "learn.not_repeatable",
    `in a fresh VM ${what} ends with ${exit_code}, and with ${recorded} in the session${line && `: ${line}`}`,
    { hint },
  );
}

/** The session's VM: its image, and the copies of the files that were brought into it. */
interface TrialSource {
  image?: string;
  /** Path of the copy of a file's content. */
  copy(file: RecordedFile): string;
  /** @throws {SbxError} `learn.not_repeatable`: no copy of a file's content */
  require(file: RecordedFile): Promise<void>;
}

async function sourceOf(client: Client, session: LabSession): Promise<TrialSource> {
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
  const copy = ({ blake3 }: RecordedFile) => join(vmPaths(vm).brought, blake3!);
  return {
    ...info?.image?.reference !== undefined && { image: info.image.reference },
    copy,
    async require(file) {
      if (file.blake3 === undefined || await exists(copy(file))) return;
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

// Commands of a session, run again in a separate VM under the profile on trial.

/** Longest run of one command, in `s`. */
const COMMAND_SECS = 300;

type Step = { command: RecordedCommand } | { file: RecordedFile };

/** A step that ended differently than in its session. */
interface Difference {
  step: Step;
  exit_code: number;
  /** of the program, or the error */
  message: string;
}

/** Exit code of a blocked program, and of a blocked file here (docs/design/contracts/02-http.md §2). */
const NOT_PERMITTED = 126;

/** Longest wait for the lock of a new file, in `ms`. */
const LOCK_MS = 100;
/** Signals by which people end a search, and their numbers. */
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;

/**
 * The trials of one search: their VM and profile are gone at its end, also after ctrl-C; the
 * service removes them after a kill.
 */
class Trials implements AsyncDisposable {
  readonly #client: Client;
  readonly #lock: Deno.FsFile;
  /** the VM of the trial under way */
  #vm?: Promise<VmSummary>;
  readonly #stops: (() => void)[] = [];
  readonly #source: TrialSource;

  private constructor(client: Client, readonly id: string, lock: Deno.FsFile, source: TrialSource) {
    this.#client = client;
    this.#source = source;
    this.#lock = lock;
    for (const [signal, number] of Object.entries(SIGNALS)) {
      const stop = () => void this.#stop(128 + number);
      Deno.addSignalListener(signal as Deno.Signal, stop);
      this.#stops.push(() => Deno.removeSignalListener(signal as Deno.Signal, stop));
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

  /** Repeats the steps under a profile of this text. @returns the first one that ended differently */
  async run(steps: readonly Step[], text: string): Promise<Difference | undefined> {
    const { id } = this;
    const { image } = this.#source;
    await saveProfile(home(), id, text);
    try {
      const json = { name: id, profile_id: id, persistent: false, ...image !== undefined && { image } };
      const vm = await (this.#vm = this.#client.json<VmSummary>("POST", "/vms/create", { json }));
      await waitUntilRunning(this.#client, vm);
      for (const step of steps) {
        const differs = "file" in step
          ? await this.#bring(vm, step, step.file)
          : await this.#exec(vm, step, step.command);
        if (differs) return differs;
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

  /** @throws {SbxError} `learn.not_repeatable`: the copy has other bytes than the record */
  async #content(file: RecordedFile): Promise<Deno.FsFile> {
    const path = this.#source.copy(file);
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

  async #stop(code: number): Promise<void> {
    try {
      await this[Symbol.asyncDispose]();
    } finally {
      Deno.exit(code);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    await this.#removeTrial();
    await Deno.remove(join(trialsDir(home()), this.id));
    this.#lock.close();
  }
}

/** Removes the VM and the profile of a trial, as far as they are there. */
async function removeTrial(client: Client, at: Home, id: string, vm: string | undefined): Promise<void> {
  if (vm !== undefined) {
    await client.json("DELETE", `/vms/${segment(vm)}/delete?force=true`).catch((error) => {
      if (error.code !== "vm.not_found") throw error;
    });
  }
  await ifFound(Deno.remove(dirname(profilePath(at, id)), { recursive: true }));
}
