/**
 * Runs sbx under KVM in a machine that QEMU emulates: `main.ts [PATTERN]`. Prints each scenario as it ends,
 * and at the end "N passed, N failed"; logs of a run in which one failed stay in .cache/kvm-logs.
 */
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { assetsDir } from "../helper/sbx.ts";
import { KvmMachine } from "./machine.ts";
import { readLines } from "./results.ts";
import type { Outcome } from "./world.ts";

/**
 * Time limit of all scenarios, in `s`: twice what they take on two processors that nothing else uses. The
 * product's own limits are multiplied by the factor.
 */
const SECONDS = 2400, TIME_FACTOR = 15;
const RESULTS = "out/results";

const SCENARIOS = (assets: string, filter: string) => `
set -eu
cd '${fromRoot("").slice(0, -1)}'
export SBX_TIME_FACTOR=${TIME_FACTOR} SBX_TEST_ASSETS_DIR='${assets}' DENO_DIR=$PWD/.deno/cache
exec .deno/deno run -A --quiet --cached-only --no-check tests/kvm/scenarios.ts /share/${RESULTS} '${filter}'
`;

const [filter = ""] = Deno.args;
if (filter.includes("'")) throw new Error("usage: main.ts [PATTERN]; no quotes");
const folder = fromRoot(".cache/kvm-logs");
await Deno.remove(folder, { recursive: true }).catch(() => {});
await Deno.mkdir(folder, { recursive: true });

let names: string[] = [];
const outcomes: Outcome[] = [];
const begun = performance.now();
let problem = "";
try {
  await using machine = await KvmMachine.start(folder);
  console.log(`the machine is up after ${Math.round((performance.now() - begun) / 1000)} s`);
  const run = machine.run("scenarios", SCENARIOS(await Deno.realPath(assetsDir()), filter), SECONDS);
  let isOver = false;
  const watched = show(() => isOver);
  try {
    const { code, output } = await run;
    if (code !== 0) problem = `the scenarios ended with exit code ${code}:\n${output.slice(-4000)}`;
  } finally {
    isOver = true;
    await watched;
  }
} catch (error) {
  problem = error instanceof Error ? error.message : String(error);
}
const missing = names.slice(outcomes.length);
for (const name of missing) console.log(`not run: ${name}`);
if (problem !== "") console.log(problem);
const passed = outcomes.filter(({ ok }) => ok).length;
const failed = outcomes.length - passed + missing.length;
for (const { name } of outcomes.filter(({ ok, isSecond }) => ok && isSecond)) {
  console.log(`passed only the second time: ${name}`);
}
const isGood = problem === "" && passed > 0 && failed === 0;
if (isGood) await Deno.remove(folder, { recursive: true });
else console.log(`logs: ${join(folder, "out/scenarios.log")}, ${join(folder, "console")}`);
console.log(`${Math.round((performance.now() - begun) / 1000)} s`);
console.log(`${passed} passed, ${failed} failed`);
Deno.exit(isGood ? 0 : 1);

/** Prints outcomes as they are written, until `isOver`. */
async function show(isOver: () => boolean): Promise<void> {
  for (;;) {
    const wasOver = isOver();
    const [first, ...rest] = await readLines(join(folder, RESULTS));
    if (first) names = (first as { names: string[] }).names;
    for (const outcome of (rest as Outcome[]).slice(outcomes.length)) {
      outcomes.push(outcome);
      const { ok, name, seconds, text } = outcome;
      console.log(`${ok ? "ok" : "FAILED"} ${name} (${seconds} s)${text === "" ? "" : `: ${text}`}`);
    }
    if (wasOver) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
