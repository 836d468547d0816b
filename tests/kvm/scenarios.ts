/**
 * Runs the scenarios inside the machine with KVM, one after another: `scenarios.ts RESULTS PATTERN`
 * appends one JSON object for each to the file RESULTS, and leaves out the ones that an earlier machine has
 * run. A failed one is run once more, and does not keep the next ones from running.
 */
import { appendLine, leftOf, readLines } from "./results.ts";
import { BARE } from "./bare.ts";
import { FAULTS } from "./faults.ts";
import { LIFE } from "./life.ts";
import { MEMORY } from "./memory.ts";
import { PROBE } from "./probe.ts";
import { USERS } from "./users.ts";
import { type Outcome, rest, type Scenario, World } from "./world.ts";

/** Longest time of a scenario that names none, in `s`. */
const SECONDS = 300;
/** Longest wait for the end of one that is not over in time, in `s`: it still clears up. */
const CLEARING_SECONDS = 300;

const [results, filter] = Deno.args;
const all = [...PROBE, ...LIFE, ...MEMORY, ...FAULTS, ...USERS, ...BARE];
const world = await World.make();
try {
  const chosen = all.filter(({ name, onRequest }) =>
    filter === "" ? !onRequest : new RegExp(filter).test(name)
  );
  const names = chosen.map(({ name }) => name);
  await world.sbx.ok("start");
  const [named, ...earlier] = await readLines(results);
  if (!named) await appendLine(results, { names });
  const left = leftOf(names, earlier as Outcome[]);
  for (const scenario of chosen.filter(({ name }) => left.includes(name))) {
    const lost = (earlier as Outcome[]).find(({ name }) => name === scenario.name);
    await appendLine(results, await outcomeOf(scenario, lost));
  }
} finally {
  await world.sbx.dispose();
}
// One that was not over in time may still wait for something.
Deno.exit(0);

/**
 * Runs a scenario, and once more where it fails: guests die now and then in an emulated
 * processor, also of a bare QEMU.
 *
 * @param lost the first time, in a machine that ended
 */
async function outcomeOf(scenario: Scenario, lost: Outcome | undefined): Promise<Outcome> {
  const first = lost ?? await tryOnce(scenario);
  if (first.ok) return first;
  const again = await tryOnce(scenario);
  const text = `${again.text}\n  the first time: ${first.text}`;
  return { ...again, seconds: first.seconds + again.seconds, text, isSecond: true };
}

async function tryOnce({ name, seconds: limit = SECONDS, run }: Scenario): Promise<Outcome> {
  const begun = performance.now();
  const seconds = () => Math.round((performance.now() - begun) / 100) / 10;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`not over after ${limit} s`)), limit * 1000);
  const work = run(world);
  const settled = work.then(() => {}, () => {});
  try {
    const text = await Promise.race([work, late.promise]) ?? "";
    return { name, ok: true, seconds: seconds(), text };
  } catch (error) {
    const text = error instanceof Error ? error.stack ?? error.message : String(error);
    const outcome = { name, ok: false, seconds: seconds(), text };
    // Its VMs have to be gone before the next scenario makes VMs of the same names.
    await Promise.race([settled, rest(CLEARING_SECONDS)]);
    return outcome;
  } finally {
    clearTimeout(timer);
  }
}
