/**
 * Runs sbx under KVM in a machine that QEMU emulates: `main.ts [PATTERN]`. Prints each scenario as it ends,
 * and at the end "N passed, N failed"; logs of a run in which one failed stay in .cache/kvm-logs. Where the
 * emulator ends a machine, another one goes on with the scenarios that are left.
 */
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { assetsDir } from "../helper/sbx.ts";
import { KvmMachine, MachineEnded } from "./machine.ts";
import { appendLine, leftOf, readLines } from "./results.ts";
import type { Outcome } from "./world.ts";

/**
 * Time limit of a run, in `s`: the whole list takes 40 minutes on two processors that little else uses. The
 * product's own limits are multiplied by the factor.
 */
const SECONDS = 3600, TIME_FACTOR = 15;
/** Machines of one run at most. */
const MACHINES = 4;
const RESULTS = "out/results";

const SCENARIOS = (assets: string, filter: string) => `
set -eu
cd '${fromRoot("").slice(0, -1)}'
export SBX_TIME_FACTOR=${TIME_FACTOR} SBX_TEST_ASSETS_DIR='${assets}' DENO_DIR=$PWD/.deno/cache
exec .deno/deno run -A --quiet --cached-only --no-check tests/kvm/scenarios.ts /share/${RESULTS} '${filter}'
`;

const [filter = ""] = Deno.args;
if (filter.includes("'")) throw new Error("usage: main.ts [PATTERN]; no quotes");
const logs = fromRoot(".cache/kvm-logs");
await Deno.remove(logs, { recursive: true }).catch(() => {});

let names: string[] = [];
const outcomes: Outcome[] = [];
const begun = performance.now();
const secondsSince = () => Math.round((performance.now() - begun) / 1000);
const assets = await Deno.realPath(assetsDir());
let problem = "";
for (let machines = 1; machines <= MACHINES; machines++) {
  const error = await runMachine(join(logs, `${machines}`)).then(() => undefined, (error) => error);
  problem = error?.message ?? "";
  const [next] = leftOf(names, outcomes);
  if (!(error instanceof MachineEnded) || names.length > 0 && next === undefined) break;
  console.log(`${problem}\nanother machine goes on`);
  if (next) outcomes.push({ name: next, ok: false, seconds: 0, text: problem, isLost: true });
}
const last = new Map(outcomes.map((outcome) => [outcome.name, outcome]));
const passed = names.filter((name) => last.get(name)?.ok);
const failed = names.filter((name) => !last.get(name)?.ok);
for (const name of leftOf(names, outcomes)) console.log(`not run to its end: ${name}`);
if (problem !== "") console.log(problem);
for (const name of passed.filter((name) => last.get(name)?.isSecond)) {
  console.log(`passed only the second time: ${name}`);
}
const isGood = problem === "" && passed.length > 0 && failed.length === 0;
if (isGood) await Deno.remove(logs, { recursive: true });
else console.log(`logs: ${logs}`);
console.log(`${secondsSince()} s`);
console.log(`${passed.length} passed, ${failed.length} failed`);
Deno.exit(isGood ? 0 : 1);

/**
 * Runs the scenarios that are left in a machine.
 *
 * @param folder shared with it
 * @throws {MachineEnded} the machine ended before them
 * @throws {Error} it does not start, they are not over in time, or their program failed
 */
async function runMachine(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  await using machine = await KvmMachine.start(folder);
  console.log(`the machine is up after ${secondsSince()} s`);
  const results = join(folder, RESULTS);
  if (names.length > 0) { for (const line of [{ names }, ...outcomes]) await appendLine(results, line); }
  const seconds = SECONDS - secondsSince();
  const run = machine.run("scenarios", SCENARIOS(assets, filter), seconds);
  let isOver = false;
  const watched = show(results, () => isOver);
  try {
    const { code, output } = await run;
    if (code !== 0) throw new Error(`the scenarios ended with exit code ${code}:\n${output.slice(-4000)}`);
  } finally {
    isOver = true;
    await watched;
  }
}

/** Prints outcomes as they are written, until `isOver`. */
async function show(results: string, isOver: () => boolean): Promise<void> {
  for (;;) {
    const wasOver = isOver();
    const [first, ...rest] = await readLines(results);
    if (first) names = (first as { names: string[] }).names;
    for (const outcome of (rest as Outcome[]).slice(outcomes.length)) {
      outcomes.push(outcome);
      const { ok, name, seconds, text } = outcome;
      console.log(
        `${ok ? "ok" : "FAILED"} ${name} (${seconds.toFixed(1)} s)${text === "" ? "" : `: ${text}`}`,
      );
    }
    if (wasOver) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
