/**
 * Time of `true` in a running VM, through the service's socket and by `sbx exec`, beside the floor: what the guest itself takes
 * to fork and exec it. The three take turns.
 *
 * The floor is what sbx-bench of the guest takes longer for more runs, by the host's clock: under emulation the guest's own
 * clock may tick every 4 ms, which is half of what is measured. The p50 that sbx-bench prints is told beside it.
 */
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 5;
const FEW_RUNS = 50;
const MANY_RUNS = 150;
const API_CALLS = 40;
const CLI_CALLS = 6;

const sbx = await Sbx.make();
const http = Deno.createHttpClient({
  proxy: { transport: "unix", path: join(sbx.home, "run/service.sock") },
});
try {
  await sbx.ok("create", "bench");
  const post = async (command: string[]) => {
    const answer = await fetch("http://service/vms/bench/exec", {
      method: "POST",
      client: http,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ command }),
    });
    const { exit_code, stdout, error } = await answer.json();
    if (exit_code !== 0) throw new Error(`${command.join(" ")}: ${error ?? exit_code}`);
    return stdout;
  };
  const guest: number[] = [];
  const bench = async (runs: number) => {
    guest.push(JSON.parse(await post(["sbx-bench", String(runs)])).fork_exec_ms.p50);
  };
  const floors: number[] = [];
  const api: number[] = [];
  const cli: number[] = [];
  for (let i = 0; i < API_CALLS; i++) await post(["true"]);
  for (let round = 0; round < ROUNDS; round++) {
    const few = await timed(() => bench(FEW_RUNS));
    floors.push((await timed(() => bench(MANY_RUNS)) - few) / (MANY_RUNS - FEW_RUNS));
    for (let i = 0; i < API_CALLS; i++) api.push(await timed(() => post(["true"])));
    for (let i = 0; i < CLI_CALLS; i++) cli.push(await timed(() => sbx.ok("exec", "bench", "--", "true")));
  }
  const floor = median(floors);
  console.log(JSON.stringify({
    name: "exec",
    unit: "ms, p50",
    ratio: rounded(median(api) / floor),
    target: "<= 3",
    floor: rounded(floor),
    floor_by_guest_clock: rounded(median(guest)),
    value: rounded(median(api)),
    cli: { value: rounded(median(cli)), ratio: rounded(median(cli) / floor) },
    runs: { api: api.length, cli: cli.length },
  }));
} finally {
  http.close();
  await sbx.dispose();
}
