/** sbx-bench: measures costs inside the guest, as JSON, for comparison with the host's figures. */

const runs = Number(Deno.args[0] ?? 50);
const times: number[] = [];
for (let i = 0; i < runs; i++) {
  const started = performance.now();
  await new Deno.Command("true", { stdin: "null", stdout: "piped", stderr: "piped" }).output();
  times.push(performance.now() - started);
}
times.sort((a, b) => a - b);
console.log(JSON.stringify({
  schema: "sbx.guest-bench.v1",
  runs,
  fork_exec_ms: { p50: times[Math.floor(runs * 0.5)], p99: times[Math.floor(runs * 0.99)] },
}));
