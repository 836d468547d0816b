/**
 * VMs under Slurm: two nodes on loopback, without root, with a home for each job
 * and with one service for all.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { assetFiles } from "../helper/asset_files.ts";
import { fromRoot } from "../helper/repo.ts";
import { Cluster } from "./cluster.ts";

const SMALL = ["--cpus", "1", "--ram", "512M"];

Deno.test("sbx runs VMs under Slurm, without root, and their records reach the fleet", async (t) => {
  await using cluster = await Cluster.start();
  const assets = await cluster.place("assets", assetFiles(Deno.env.get("SBX_TEST_ASSETS_DIR")!));
  const store = await cluster.place("fleet");
  await cluster.place("homes");
  const corp = join(cluster.dir, "corp.toml");
  await Deno.writeTextFile(corp, `[fleet]\nurl = "file://${store}"\n`);
  const env = {
    SBX_ASSETS_DIR: assets,
    SBX_TEMPLATES_DIR: await cluster.place("templates"),
    SBX_GATEWAY_PORT: "0",
    SBX_CORP_CONFIG: corp,
  };
  const ok = async (command: string[], more: Record<string, string> = {}) => {
    const ran = await cluster.run(command, { ...env, ...more });
    assertEquals(ran.code, 0, `${command.join(" ")}\n${ran.stdout}${ran.stderr}`);
    return ran.stdout;
  };

  await t.step("the guide's batch file is one that Slurm takes", async () => {
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

  await t.step(
    "a home for each job: one VM on each node, the exit code, and a record in the fleet",
    async () => {
      const token = join(cluster.dir, "token.txt");
      await Deno.writeTextFile(token, await ok(["sbx-admin", "fleet", "token", store, "--machines", "2"]), {
        mode: 0o644,
      });
      const lines = join(cluster.dir, "lines.txt");
      await Deno.writeTextFile(lines, "echo one of $(id -u); exit 0\necho two; exit 7\n");
      const output = join(cluster.dir, "homes", "out-%a");
      const { code, stdout, stderr } = await cluster.run([
        ...["sbatch", "--wait", "--parsable", "--array=1-2", "--exclusive", "--output", output],
        ...["--mem=2000", "--export=ALL", fromRoot("docs/guides/examples/slurm.sbatch"), lines],
      ], { ...env, SBX_FLEET_TOKEN_FILE: token, TMPDIR: join(cluster.dir, "homes") });
      const outputs = [1, 2].map((at) => Deno.readTextFileSync(output.replace("%a", String(at))));
      // The exit code of --wait is the highest of the array's.
      assertEquals(code, 7, `${stdout}${stderr}${outputs.join("\n")}`);
      assertStringIncludes(outputs[0], "one of 0");
      assertStringIncludes(outputs[1], "two");
      const left = Array.from(Deno.readDirSync(join(cluster.dir, "homes")), ({ name }) => name);
      assertEquals(left.sort(), ["out-1", "out-2"], "no home stays");
      const machines = JSON.parse(await ok(["sbx-admin", "fleet", "machines", store, "--json"]));
      assertEquals(machines.machines.length, 2, JSON.stringify(machines));
      await ok(["sbx-admin", "fleet", "verify", store]);
    },
  );

  await t.step("one service for all jobs: srun's tasks wait for room in its queue", async () => {
    const shared = { SBX_HOME: await cluster.place("shared"), SBX_CORP_CONFIG: "" };
    await ok(["sbx", "settings", "set", "vm.resources.max_concurrent_vms", "1"], shared);
    await ok(["sbx", "start"], shared);
    try {
      const program = `sbx run ${SMALL.join(" ")} --queue 600 -- sh -c "echo task $SLURM_PROCID"`;
      const out = await ok(["srun", "-N2", "-n2", "--mem=1000", "sh", "-c", program], shared);
      assertEquals(out.trim().split("\n").sort(), ["task 0", "task 1"]);
      const { sessions } = JSON.parse(await ok(["sbx", "sessions", "list", "--json"], shared));
      assert(sessions.length >= 2, JSON.stringify(sessions));
      const { code } = await cluster.run(["srun", "--mem=1000", "sbx", "run", ...SMALL, "--", "false"], {
        ...env,
        ...shared,
      });
      assertEquals(code, 1, "the program's exit code is srun's");
    } finally {
      await ok(["sbx", "stop", "--all"], shared);
    }
  });
});
