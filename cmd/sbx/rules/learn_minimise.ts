/** sbx learn --minimise: a learned profile without the rules that its session's commands do not need. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { parseProfile } from "../../../lib/config/profile/mod.ts";
import type { LabSession } from "../../../lib/lab/mod.ts";
import {
  checkProfile,
  type LearnedProfile,
  minimise,
  OWN_PROGRAMS,
  profileRules,
  stepsOf,
  without,
} from "../../../lib/lab/learn/mod.ts";
import { connect } from "../connect.ts";
import { type Difference, sourceOf, Trials } from "./learn_trial.ts";

/** The search for rules to leave out, and its result. */
export interface Minimised {
  /** commands of the session that each trial repeats */
  commands: number;
  /** trials, each in a VM of its own */
  runs: number;
  /** false: the bound was reached, and more may be left out */
  complete: boolean;
  /** ids of the rules that were left out */
  left_out: string[];
}

/**
 * Leaves out every rule without which the commands of a session still end as they did.
 *
 * @param session reads the session from its start at each call
 * @param runs most trials
 * @throws {SbxError} `learn.commands`; `learn.not_repeatable`: the commands end differently even under the
 * whole profile
 */
export async function minimiseProfile(
  learned: LearnedProfile,
  session: () => LabSession,
  runs: number,
): Promise<LearnedProfile & { minimised: Minimised }> {
  const { steps, commands } = await stepsOf(session().events);
  const client = await connect();
  const source = await sourceOf(client, session());
  for (const step of steps) if ("file" in step) await source.require(step.file);

  const all = learned.rules.map((rule) => rule.id);
  // Never left out: people bring files in and take work out through them, which no command of the session
  // shows.
  const required = learned.rules.filter(({ match }) => match.includes(OWN_PROGRAMS)).map((rule) => rule.id);
  const candidates = all.filter((id) => !required.includes(id));
  // Strict, as a trial has to be: a question would hold up a command instead of failing it.
  const textWith = (kept: readonly string[], id: string) =>
    without(learned, all.filter((each) => !kept.includes(each)), { id, strict: true });

  await using trials = await Trials.begin(client, source);
  const stageOf = (trial: number) => `trial ${trial} of at most ${runs}`;
  using progress = new Progress(
    Array.from({ length: runs }, (_, at) => ({ name: stageOf(at + 1), weight: 1 })),
  );
  let trial = 0;
  /** Repeats the session under these rules alone. */
  const runTrial = async (kept: readonly string[]) => {
    progress.stage(stageOf(++trial));
    return await trials.run(steps, textWith(kept, trials.id));
  };
  const difference = await runTrial(all);
  if (difference) throw notRepeatable(difference);
  const isEnough = async (kept: readonly string[]) => await runTrial([...required, ...kept]) === undefined;
  const found = await minimise(candidates, isEnough, runs - 1);

  const kept = [...required, ...found.kept];
  const text = textWith(kept, learned.id);
  const rules = profileRules(parseProfile(parseToml(text, `profile ${learned.id}`), {
    id: learned.id,
    source: "user",
  }));
  return {
    ...learned,
    text,
    rules: learned.rules.filter(({ id }) => kept.includes(id)),
    check: await checkProfile(rules, [session()]),
    minimised: {
      commands,
      runs: found.runs + 1,
      complete: found.isComplete,
      left_out: all.filter((id) => !kept.includes(id)),
    },
  };
}

function notRepeatable({ step, exit_code, message }: Difference): SbxError {
  const hint =
    "the commands have to find all that they need in a fresh VM with the files that were brought in; or learn without --minimise";
  const lastLine = message.trim().split("\n").at(-1) ?? "";
  if ("file" in step) {
    return new SbxError("learn.not_repeatable", `a fresh VM refused "${step.file.path}": ${lastLine}`, {
      hint,
    });
  }
  const { argv, isOwn, exit_code: recorded } = step.command;
  const subject = isOwn ? "bringing the repository or folder in" : `"${argv.join(" ")}"`;
  const reason = lastLine && `: ${lastLine}`;
  return new SbxError(
    "learn.not_repeatable",
    `in a fresh VM ${subject} ends with ${exit_code}, and with ${recorded} in the session${reason}`,
    { hint },
  );
}
