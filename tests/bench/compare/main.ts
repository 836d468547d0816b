/**
 * The fast benchmarks of two commits, in turns: `make bench-compare BASE=commit`. The head is this checkout
 * as it stands. Prints a table for docs/design/measurements.md, or JSON with `--json`; exits with 1 if a
 * figure is worse in every round.
 *
 *     deno run -A tests/bench/compare/main.ts [--json] [--rounds N] BASE [BENCHMARK…]
 */
import { parseArgs } from "@std/cli";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import { FIGURES, type Verdict, verdictsOf } from "./verdict.ts";

/** With three, one of twenty figures was worse in every round by chance, on a busy machine. */
const ROUNDS = 5;
/** Time limit in `ms` of preparing a checkout, and of one benchmark. */
const PREPARATION_MS = 600_000;
const BENCH_MS = 600_000;

const { _: [base, ...chosen], json, rounds: given }: { _: string[]; json: boolean; rounds?: string } =
  parseArgs(
    Deno.args,
    { boolean: ["json"], string: ["_", "rounds"] },
  );
const rounds = Number(given ?? ROUNDS);
const names = chosen.length > 0 ? chosen : Object.keys(FIGURES);
const unknown = names.find((name) => !(name in FIGURES));
if (base === undefined || unknown !== undefined || !(rounds >= 1)) {
  const problem = base === undefined
    ? "which commit is the base?"
    : unknown === undefined
    ? "--rounds is a number from 1 up"
    : `there is no fast benchmark ${unknown}; there are ${Object.keys(FIGURES).join(", ")}`;
  console.error(
    `bench-compare: ${problem}\n  make bench-compare BASE=commit [BENCH="policy ledger"] [ROUNDS=${ROUNDS}]`,
  );
  Deno.exit(2);
}

const commit = await said("git", ["rev-parse", "--verify", "--quiet", `${base}^{commit}`]).catch(() => {
  console.error(`bench-compare: this clone has no commit ${base}; git fetch --unshallow brings older ones`);
  Deno.exit(2);
});
const place = await Deno.makeTempDir({ prefix: "sbx-bench-base-" });
const verdicts: Verdict[] = [];
let failed = false;
try {
  const checkout = join(place, "sbx");
  await prepare(checkout);
  for (const name of names) {
    const pairs: [unknown, unknown][] = [];
    for (let round = 1; round <= rounds; round++) {
      console.error(`${name}: round ${round} of ${rounds}`);
      // Each side goes first in turn: what else the machine does meets both.
      const isBaseFirst = round % 2 === 1;
      const first = await run(isBaseFirst ? checkout : fromRoot(""), name);
      const second = await run(isBaseFirst ? fromRoot("") : checkout, name);
      pairs.push(isBaseFirst ? [first, second] : [second, first]);
    }
    if (pairs.some(([, head]) => head === undefined)) {
      failed = true;
      console.error(`${name}: fails in this checkout; deno task bench ${name} shows why`);
    } else verdicts.push(...verdictsOf(name, pairs));
  }
} finally {
  await Deno.remove(place, { recursive: true });
}
const load = (await Deno.readTextFile("/proc/loadavg").catch(() => "")).split(" ").slice(0, 3).join(" ");
if (json) console.log(JSON.stringify({ base: commit, rounds, load, figures: verdicts }));
else console.log(tableOf(verdicts));
const worse = verdicts.filter(({ isRegression }) => isRegression);
for (const { bench, figure, cost } of worse) {
  console.error(`${bench} ${figure}: worse in every round, at best by ${percent(cost.best)}`);
}
Deno.exit(failed || worse.length > 0 ? 1 : 0);

/** Clones the base with a toolchain of its own, since it may want other versions. */
async function prepare(checkout: string): Promise<void> {
  console.error(`preparing ${commit.slice(0, 8)}`);
  await said("git", ["clone", "--quiet", "--shared", "--no-checkout", fromRoot(""), checkout]);
  await said("git", ["-C", checkout, "checkout", "--quiet", "--detach", commit]);
  await said("cp", ["--archive", "--reflink=auto", fromRoot(".deno"), join(checkout, ".deno")]);
  await said("make", ["--silent", "-C", checkout, "setup"]);
}

/** Runs a benchmark. @returns its JSON; `undefined` if it is not there or fails */
async function run(checkout: string, name: string): Promise<unknown> {
  const deno = join(checkout, ".deno/deno");
  const args = ["task", "--quiet", "--cwd", checkout, "bench", name];
  const env = { DENO_DIR: join(checkout, ".deno/cache") };
  const { code, stdout } = await runChild(deno, { args, env }, BENCH_MS);
  const line = new TextDecoder().decode(stdout).trim().split("\n").at(-1);
  if (code !== 0 || !line) return undefined;
  return JSON.parse(line);
}

/** Runs a command that must succeed. @returns what it printed */
async function said(program: string, args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runChild(program, { args }, PREPARATION_MS);
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout).trim();
}

function tableOf(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map(({ bench, figure, base, head, cost, isRegression }) => [
    bench,
    figure,
    `${Number(base.toPrecision(4))}`,
    `${Number(head.toPrecision(4))}`,
    `${cost.median} (${cost.best}–${cost.worst})${isRegression ? " **worse**" : ""}`,
  ]);
  const head = ["benchmark", "figure", commit.slice(0, 8), "head", "cost, head to base (rounds)"];
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function percent(cost: number): string {
  return `${Math.round((cost - 1) * 100)} %`;
}
