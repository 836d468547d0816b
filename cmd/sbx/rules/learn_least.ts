/** sbx learn --minimise: a learned profile without the rules that its session's commands do not need. */
import { SbxError } from "../../../lib/base/error/mod.ts";
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
import { home } from "../../../lib/base/home/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { dirname } from "node:path";
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
  // Never the id of an existing profile.
  const id = `learn-${crypto.randomUUID().slice(0, 8)}`;
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
    return await tryCommands(client, commands, { id, text });
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

/** Runs the commands under a profile of this text. @returns the first one that ended differently */
async function tryCommands(
  client: Client,
  commands: readonly RecordedCommand[],
  profile: { id: string; text: string },
): Promise<Difference | undefined> {
  await saveProfile(home(), profile.id, profile.text);
  try {
    const json = { name: profile.id, profile_id: profile.id, persistent: false };
    const vm = await client.json<VmSummary>("POST", "/vms/create", { json });
    try {
      await waitUntilRunning(client, vm);
      for (const command of commands) {
        const { argv, cwd } = command;
        const { exit_code, stderr } = await client.json<ExecResult>("POST", `/vms/${segment(vm.id)}/exec`, {
          json: { command: argv, cwd, timeout_secs: COMMAND_SECS },
        });
        if (exit_code !== command.exit_code) return { command, exit_code, stderr };
      }
      return undefined;
    } finally {
      await client.json("DELETE", `/vms/${segment(vm.id)}/delete?force=true`);
    }
  } finally {
    await Deno.remove(dirname(profilePath(home(), profile.id)), { recursive: true });
  }
}
