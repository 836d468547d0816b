/** How a run of test files ended. */
export interface TestRun {
  outcome: "passed" | "failed" | "late";
  /** test files with a failure, as far as the report names them */
  failing: string[];
  /** time from start to end, in `ms` */
  ms: number;
  /** time on a processor in `ms`, which other work on the machine does not change; absent after a late run */
  cpuMs?: number;
}

/** Verdict on a mutation. */
export type Verdict = "noticed" | "timeout" | "survived";

/** A time limit is this many `ms`, and a multiple of the time without a mutation. */
const LEAST_MS = 10_000;
const LIMIT = 3;

/**
 * Runs test files in a process group of their own, which is ended with the run.
 *
 * @param checkout folder in which they run
 * @param tests test files, relative to it
 * @param limitMs none for tests that are known to end
 * @param options more options of `deno test`
 */
export async function runTests(
  checkout: string,
  tests: string[],
  limitMs?: number,
  options: string[] = ["--fail-fast"],
): Promise<TestRun> {
  const started = performance.now();
  const child = new Deno.Command("sh", {
    args: [
      "-c",
      '"$@"; code=$?; times; exit $code',
      "sh",
      Deno.execPath(),
      ...["test", "--no-check", "-A", "--quiet", ...options, ...tests],
    ],
    cwd: checkout,
    env: { NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    detached: true,
  }).spawn();
  let late = false;
  const timer = limitMs && setTimeout(() => {
    late = true;
    endGroup(child.pid);
  }, limitMs);
  const text = new Response(child.stdout).text();
  const { success } = await child.status;
  clearTimeout(timer);
  endGroup(child.pid);
  const report = await text;
  return {
    outcome: late ? "late" : success ? "passed" : "failed",
    failing: tests.filter((test) =>
      report.includes(`=> ./${test}:`) || report.includes(`./${test} (uncaught`)
    ),
    ms: performance.now() - started,
    cpuMs: late ? undefined : cpuMsOf(report),
  };
}

/**
 * Runs tests on a mutated checkout. A failure counts when the same test file fails twice. A late run counts
 * when the tests without the mutation, run right after it, are much faster.
 *
 * @param expectedMs time of the tests without the mutation when they were measured
 * @param original runs a function on the checkout without the mutation
 */
export async function judge(
  checkout: string,
  tests: string[],
  expectedMs: number,
  original: <T>(run: () => Promise<T>) => Promise<T>,
): Promise<Verdict> {
  let rest = tests;
  let limitMs = LEAST_MS + LIMIT * expectedMs;
  let wasLate = false;
  while (rest.length > 0) {
    const { outcome, failing } = await runTests(checkout, rest, limitMs);
    if (outcome === "passed") return "survived";
    if (outcome === "late") {
      if (wasLate) return "timeout";
      wasLate = true;
      const { ms } = await original(() => runTests(checkout, rest));
      if (LEAST_MS + LIMIT * ms <= limitMs) return "timeout";
      limitMs = LEAST_MS + LIMIT * ms;
      continue;
    }
    const suspects = failing.length ? failing : rest;
    const second = await runTests(checkout, suspects, limitMs);
    if (second.outcome !== "passed") return "noticed";
    rest = rest.filter((test) => !suspects.includes(test));
  }
  return "survived";
}

/** Time of the children in the report of `times`: `1m2.50s 0m0.25s`, of the user and the system. */
function cpuMsOf(report: string): number | undefined {
  const times = report.trimEnd().split("\n").at(-1)!.matchAll(/(\d+)m([\d.]+)s/g);
  const seconds = [...times].map(([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds));
  return seconds.length === 2 ? (seconds[0] + seconds[1]) * 1000 : undefined;
}

/** A mutated process may loop without ever reading its signals. */
function endGroup(leader: number): void {
  try {
    Deno.kill(-leader, "SIGKILL");
  } catch {
    // Nothing of it is left.
  }
}
