/** sbx learn --minimise: a learned profile without the rules that its session's commands do not need. */
import { ifFound, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import type { LabSession } from "../../../lib/lab/mod.ts";
import {
  checkProfile,
  commandsOf,
  type LearnedProfile,
  minimise,
  profileRules,
  type RecordedCommand,
  without,
} from "../../../lib/lab/learn/mod.ts";
import { parseProfile, profilePath, saveProfile } from "../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { connect } from "../connect.ts";
import type { ExecResult, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Home, home, lockWithin } from "../../../lib/base/home/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { dirname, join } from "node:path";
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
 * @throws {SbxError} `learn.commands`; `learn.not_repeatable`: the commands do not even pass under the whole profile
 */
export async function leastProfile(
  learned: LearnedProfile,
  session: () => LabSession,
  runs: number,
): Promise<LearnedProfile & { minimised: Minimised }> {
  const commands = await commandsOf(session().events);
  const client = await connect();
  await removeLeftTrials(client, home());
  await using trials = await Trials.begin(client);
  const { id } = trials;
  const allIds = learned.rules.map((rule) => rule.id);
  const leftOut = (kept: readonly string[]) => allIds.filter((each) => !kept.includes(each));
  const stageOf = (trial: number) => `trial ${trial} of at most ${runs}`;
  using progress = new Progress(
    Array.from({ length: runs }, (_, at) => ({ name: stageOf(at + 1), weight: 1 })),
  );
  let trial = 0;
  const differs = async (kept: readonly string[]) => {
    progress.stage(stageOf(++trial));
    const text = without(learned, leftOut(kept), { id, strict: true });
    return await trials.run(commands, text);
  };
  const first = await differs(allIds);
  if (first) throw notRepeatable(first);
  const found = await minimise(allIds, async (kept) => !await differs(kept), runs - 1);
  const left_out = leftOut(found.kept);
  // As the trials had it: a question would hold up a command that ends without the event.
  const text = without(learned, left_out, { id: learned.id, strict: true });
  const rules = profileRules(parseProfile(parseToml(text, `profile ${learned.id}`), {
    id: learned.id,
    source: "user",
  }));
  return {
    ...learned,
    text,
    rules: learned.rules.filter(({ id }) => found.kept.includes(id)),
    check: await checkProfile(rules, [session()]),
    minimised: { commands: commands.length, runs: found.runs + 1, complete: found.isComplete, left_out },
  };
}

function notRepeatable({ command, exit_code, stderr }: Difference): SbxError {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return new SbxError(
    "learn.not_repeatable",
    `in a fresh VM "${
      command.argv.join(" ")
    }" ends with ${exit_code}, and with ${command.exit_code} in the session${line && `: ${line}`}`,
    {
      hint:
        "the commands have to bring their own files: a fresh VM has an empty workspace; or learn without --minimise",
    },
  );
}

// Commands of a session, run again in a separate VM under the profile on trial.

/** Longest run of one command, in `s`. */
const COMMAND_SECS = 300;

/** A command that ended differently than in its session. */
interface Difference {
  command: RecordedCommand;
  exit_code: number;
  stderr: string;
}

type Trialled = Pick<Client, "json">;

/** A file of each search under way; its lock ends with the process. */
const trialsDir = ({ runDir }: Pick<Home, "runDir">) => join(runDir, "learn");
/** Longest wait for the lock of a search that may be under way, in `ms`. */
const LOCK_MS = 100;
/** Signals by which people end a search, and their numbers. */
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;

/** The trials of one search: their VM and profile are gone at its end, also after ctrl-C. */
class Trials implements AsyncDisposable {
  readonly #client: Client;
  readonly #lock: Deno.FsFile;
  /** the VM of the trial under way */
  #vm?: Promise<VmSummary>;
  readonly #stops: (() => void)[] = [];

  private constructor(client: Client, readonly id: string, lock: Deno.FsFile) {
    this.#client = client;
    this.#lock = lock;
    for (const [signal, number] of Object.entries(SIGNALS)) {
      const stop = () => void this.#stop(128 + number);
      Deno.addSignalListener(signal as Deno.Signal, stop);
      this.#stops.push(() => Deno.removeSignalListener(signal as Deno.Signal, stop));
    }
  }

  static async begin(client: Client): Promise<Trials> {
    await Deno.mkdir(trialsDir(home()), { recursive: true, mode: 0o700 });
    // Never the id of an existing profile.
    const id = `learn-${crypto.randomUUID().slice(0, 8)}`;
    const lock = await Deno.open(join(trialsDir(home()), id), { write: true, createNew: true, mode: 0o600 });
    await lockWithin(lock, LOCK_MS);
    return new Trials(client, id, lock);
  }

  /** Runs the commands under a profile of this text. @returns the first one that ended differently */
  async run(commands: readonly RecordedCommand[], text: string): Promise<Difference | undefined> {
    const { id } = this;
    await saveProfile(home(), id, text);
    try {
      const json = { name: id, profile_id: id, persistent: false };
      const vm = await (this.#vm = this.#client.json<VmSummary>("POST", "/vms/create", { json }));
      await waitUntilRunning(this.#client, vm);
      for (const command of commands) {
        const { argv, cwd } = command;
        const path = `/vms/${segment(vm.id)}/exec`;
        const { exit_code, stderr } = await this.#client.json<ExecResult>("POST", path, {
          json: { command: argv, cwd, timeout_secs: COMMAND_SECS },
        });
        if (exit_code !== command.exit_code) return { command, exit_code, stderr };
      }
      return undefined;
    } finally {
      await this.#removeTrial();
    }
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
async function removeTrial(client: Trialled, at: Home, id: string, vm: string | undefined): Promise<void> {
  if (vm !== undefined) {
    await client.json("DELETE", `/vms/${segment(vm)}/delete?force=true`).catch((error) => {
      if (error.code !== "vm.not_found") throw error;
    });
  }
  await ifFound(Deno.remove(dirname(profilePath(at, id)), { recursive: true }));
}

/** Removes VMs and profiles of searches whose process was killed. */
export async function removeLeftTrials(client: Trialled, at: Home): Promise<void> {
  const names = await ifFound(Array.fromAsync(Deno.readDir(trialsDir(at)), ({ name }) => name)) ?? [];
  for (const id of names) {
    const path = join(trialsDir(at), id);
    using file = await ifFound(Deno.open(path, { write: true }));
    if (!file || !await lockWithin(file, LOCK_MS)) continue;
    const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    const left = vms.find(({ name, profile_id }) => name === id && profile_id === id);
    await removeTrial(client, at, id, left?.id);
    await ifFound(Deno.remove(path));
  }
}
