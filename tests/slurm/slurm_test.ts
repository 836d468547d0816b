/** sbx under Slurm: a controller and two nodes on loopback, without root. Boots no VM. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { Cluster } from "./cluster.ts";

Deno.test("Slurm takes the guide's batch file, and its nodes start sbx without root", async (t) => {
  await using cluster = await Cluster.start();

  await t.step("sbatch --test-only", async () => {
    const file = fromRoot("docs/guides/examples/slurm.sbatch");
    const { code, stderr } = await cluster.run([
      "sbatch",
      "--test-only",
      "--array=1-1000%200",
      file,
      "lines.txt",
    ]);
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /Job \d+ to start at/);
  });

  await t.step("a service in a home of its own, on each node", async () => {
    const program =
      "export SBX_HOME=$PWD/home-$SLURM_PROCID; sbx start >/dev/null && sbx list --json | tr -d ' \\n' && " +
      'echo " $SLURMD_NODENAME"; sbx stop --all >/dev/null';
    const env = { SBX_GATEWAY_PORT: "0", SBX_ASSETS_DIR: join(cluster.dir, "none") };
    const { code, stdout, stderr } = await cluster.run([
      "srun",
      "-N2",
      "-n2",
      "--mem=1000",
      "sh",
      "-c",
      program,
    ], env);
    assertEquals(code, 0, stderr);
    assertEquals(stdout.trim().split("\n").sort(), ['{"vms":[]} sbx1', '{"vms":[]} sbx2'], stderr);
  });

  await t.step("srun ends with sbx's exit code", async () => {
    const { code, stderr } = await cluster.run(["srun", "--mem=1000", "sbx", "no-such-command"]);
    assertEquals(code, 2, stderr);
  });
});
