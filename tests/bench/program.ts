/**
 * Time and memory of the compiled program's short commands, beside a compiled program that prints a line (the
 * floor). All take turns. `SBX_BENCH_PROGRAMS` names the folder of a build; absent: one is built.
 */
import { join } from "node:path";
import { testRuntime } from "../../scripts/test_runtime.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { median, rounded } from "../helper/statistics.ts";

const ROUNDS = 20;
const BUILD_MS = 600_000;
/** How often a process is looked at, in `ms`: its memory is gone when it has ended. */
const LOOK_MS = 2;
const COMMANDS = [["version"], ["list"], ["help"]];

interface Cost {
  ms: number;
  mb: number;
}

const dir = await Deno.makeTempDir();
try {
  const runtime = await testRuntime();
  const floor = join(dir, "floor");
  await Deno.writeTextFile(`${floor}.ts`, 'console.log("sbx")');
  const compile = [
    "compile",
    "--quiet",
    "--no-check",
    "--no-config",
    "--no-code-cache",
    "-A",
    "--output",
    floor,
  ];
  await ran(runtime.DENO_COMPILE, [...compile, `${floor}.ts`], { ...runtime, DENO_DIR: join(dir, "deno") });
  let programs = Deno.env.get("SBX_BENCH_PROGRAMS");
  if (programs === undefined) {
    programs = join(dir, "dist");
    await ran("make", ["--silent", "-C", fromRoot(""), "build", `OUT=${programs}`], runtime);
  }
  const env = { SBX_HOME: join(dir, "home"), TMPDIR: dir, NO_COLOR: "1" };
  const calls: [string, string[]][] = [
    [floor, []],
    ...COMMANDS.map((args): [string, string[]] => [join(programs!, "sbx"), args]),
  ];
  const costs: Cost[][] = calls.map(() => []);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [at, [program, args]] of calls.entries()) {
      const cost = await costOf(program, args, env);
      // The first run of each reads its file.
      if (round > 0) costs[at].push(cost);
    }
  }
  await ran(join(programs, "sbx"), ["stop"], env);
  const [least, ...others] = costs.map((each) => ({
    ms: rounded(median(each.map(({ ms }) => ms)), 1),
    mb: rounded(median(each.map(({ mb }) => mb)), 1),
  }));
  const { size } = await Deno.stat(join(programs, "sbx"));
  console.log(JSON.stringify({
    name: "program",
    target: "<= 1.5 and 70 MB",
    size_mb: Math.round(size / 1e6),
    floor: { ...least, size_mb: Math.round((await Deno.stat(floor)).size / 1e6) },
    ...Object.fromEntries(others.map((cost, at) => [
      COMMANDS[at][0],
      { ratio: rounded(cost.ms / least.ms), ...cost },
    ])),
  }));
} finally {
  await Deno.remove(dir, { recursive: true });
}

async function costOf(program: string, args: string[], env: Record<string, string>): Promise<Cost> {
  const began = performance.now();
  const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "null", stderr: "null" })
    .spawn();
  let kilobytes = 0;
  const look = setInterval(() => {
    try {
      const status = Deno.readTextFileSync(`/proc/${child.pid}/status`);
      kilobytes = Math.max(kilobytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }, LOOK_MS);
  const { success } = await child.status;
  clearInterval(look);
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
  return { ms: performance.now() - began, mb: kilobytes / 1000 };
}

async function ran(program: string, args: string[], env: Record<string, string>): Promise<void> {
  const { code, stderr } = await runChild(program, { args, env }, BUILD_MS);
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}
