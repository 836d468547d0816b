/**
 * Time of `true` in a running VM by `sbx exec` and by the API, beside the floor: what the guest itself takes
 * to fork and exec it. All take turns in every round.
 *
 * The floor is what sbx-bench of the guest takes longer for more runs, by the host's clock: under emulation
 * the guest's own clock may tick every 4 ms, which is half of what is measured. The mean that sbx-bench
 * prints is told beside it. `SBX_BENCH_PROGRAMS` names the folder of a compiled build, measured too.
 */
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 10;
const FEW_RUNS = 25;
const MANY_RUNS = 75;
const API_CALLS = 20;
const CLI_CALLS = 4;

const sbx = await Sbx.make();
const compiled = Deno.env.get("SBX_BENCH_PROGRAMS");
const http = Deno.createHttpClient({
  proxy: { transport: "unix", path: join(sbx.home, "run/service.sock") },
});

/** A program of the host, started as a shell starts it. */
async function start(program: string, ...args: string[]): Promise<void> {
  const { success } = await new Deno.Command(program, { args, env: sbx.env, stdin: "null", stderr: "null" })
    .output();
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
}

async function post(command: string[]): Promise<{ stdout: string; duration_ms: number }> {
  const answer = await fetch("http://service/vms/bench/exec", {
    method: "POST",
    client: http,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ command }),
  });
  const result = await answer.json();
  if (result.exit_code !== 0) throw new Error(`${command.join(" ")}: ${result.error ?? result.exit_code}`);
  return result;
}

try {
  await sbx.ok("create", "bench");
  const guest: number[] = [];
  const agent: number[] = [];
  const bench = async (runs: number) => {
    const { stdout } = await post(["sbx-bench", "--only", "process", "--runs", String(runs)]);
    guest.push(JSON.parse(stdout).measures.process);
  };
  const call = async () => {
    agent.push((await post(["true"])).duration_ms);
  };
  const bin = fromRoot("bin/sbx");
  const exec = ["exec", "bench", "--", "true"];
  // An option makes the launcher leave the call to the client in TypeScript.
  const execWithOption = ["exec", "--cwd", "/workspace", "bench", "--", "true"];
  const measured: Record<string, { calls: number; work: () => Promise<void> }> = {
    api: { calls: API_CALLS, work: call },
    cli: { calls: CLI_CALLS, work: () => start(bin, ...exec) },
    cli_with_option: { calls: CLI_CALLS, work: () => start(bin, ...execWithOption) },
    ...compiled && { cli_compiled: { calls: CLI_CALLS, work: () => start(join(compiled, "sbx"), ...exec) } },
    start_of_bash: { calls: CLI_CALLS, work: () => start("bash", "-c", ":") },
    start_of_deno: { calls: CLI_CALLS, work: () => start(bin, "version") },
    service: {
      calls: API_CALLS,
      work: async () => void await (await fetch("http://service/version", { client: http })).text(),
    },
  };
  const times: Record<string, number[]> = {};
  const floors: number[] = [];
  for (let i = 0; i < API_CALLS; i++) await call();
  agent.length = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const few = await timed(() => bench(FEW_RUNS));
    floors.push((await timed(() => bench(MANY_RUNS)) - few) / (MANY_RUNS - FEW_RUNS));
    for (const [name, { calls, work }] of Object.entries(measured)) {
      const inRound: number[] = [];
      for (let i = 0; i < calls; i++) inRound.push(await timed(work));
      (times[name] ??= []).push(median(inRound));
    }
  }
  const floor = median(floors);
  /** The median of a value, and of its ratios to the floor of the same round. */
  const beside = (values: number[]) => ({
    value: rounded(median(values)),
    ratio: rounded(median(values.map((value, round) => value / floors[round]))),
  });
  const { api, cli, cli_with_option, cli_compiled, ...pieces } = times;
  console.log(JSON.stringify({
    name: "exec",
    unit: "ms, p50",
    target: "<= 3",
    floor: rounded(floor),
    floor_by_guest_clock: rounded(median(guest)),
    ...beside(cli),
    api: beside(api),
    cli_with_option: beside(cli_with_option),
    ...cli_compiled && { cli_compiled: beside(cli_compiled) },
    pieces: {
      agent: median(agent),
      ...Object.fromEntries(Object.entries(pieces).map(([name, values]) => [name, rounded(median(values))])),
    },
    rounds: ROUNDS,
  }));
} finally {
  http.close();
  await sbx.dispose();
}
