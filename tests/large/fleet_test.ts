/**
 * Three services with real VMs and one receiver, which is killed in between: every row arrives,
 * and questions have their answers.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type FleetCheck, makeToken } from "../../lib/fleet/receive/mod.ts";
import { packBundle } from "../../lib/fleet/bundle/mod.ts";
import { addEntries, describeBundle, openRelease, TRUST, Workspace } from "../../lib/publish/mod.ts";
import { runChild } from "../helper/child.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";
import { ReleaseWorkspace } from "../helper/release_workspace.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const MACHINES = 3;
const ROUNDS = 6;

/** A port that nothing listens on: a receiver that was killed must come back where machines look for it. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

Deno.test("three machines and one receiver", async (t) => {
  const dir = await Deno.makeTempDir();
  const store = join(dir, "store");
  const options = ["--port", String(freePort())];
  let receiver = await new ReceiverProcess(store, options).ready();
  const publisher = await ReleaseWorkspace.make(Date.now() - 5 * 86_400_000);
  const corp = join(dir, "corp.toml");
  await Deno.writeTextFile(
    corp,
    `[fleet]
url = "${receiver.url}"
bundles_url = "${pathToFileURL(join(publisher.out, "channels.json")).href}"
[release]
trust_file = "${join(publisher.dir, TRUST)}"
`,
  );
  const machines = await Promise.all(
    Array.from({ length: MACHINES }, () => Sbx.make({ spare: false, env: { SBX_CORP_CONFIG: corp } })),
  );
  const admin = async (...args: string[]) => await machines[0].run("sbx-admin", args);
  const all = <T>(work: (sbx: Sbx, at: number) => Promise<T>) => Promise.all(machines.map(work));
  const exec = (sbx: Sbx, ...command: string[]) => sbx.cli("exec", "dev", "--", ...command);
  try {
    await t.step("machines enrol, and their VMs work", async () => {
      for (const [at, sbx] of machines.entries()) {
        const { token } = await makeToken(store, { team: `team-${at}` });
        const path = join(dir, "token.txt");
        await Deno.writeTextFile(path, token);
        const enrol = `"$0" fleet enrol --name machine-${at} < "$1"`;
        const sbxPath = new URL("../../bin/sbx", import.meta.url).pathname;
        const { code, stderr } = await runChild("/bin/sh", {
          args: ["-c", enrol, sbxPath, path],
          env: sbx.env,
        });
        assertEquals(code, 0, new TextDecoder().decode(stderr));
      }
      for (const sbx of machines) await sbx.ok("create", "dev");
      for (let round = 0; round < ROUNDS; round++) {
        await all(async (sbx) => {
          for (const command of [["uname", "-a"], ["ls", "-l", "/etc"]]) {
            const { code, stderr } = await exec(sbx, ...command);
            assertEquals(code, 0, stderr);
          }
        });
        if (round === 1) await receiver.kill();
        if (round === ROUNDS - 2) receiver = await new ReceiverProcess(store, options).ready();
      }
    });

    await t.step("a bundle goes out to all of them, and holds in VMs that run", async () => {
      const policy = join(dir, "policy");
      await Deno.mkdir(policy);
      await Deno.writeTextFile(
        join(policy, "corp.toml"),
        `[corp.rules.no-id]\naction = "block"\nmatch = 'process.activity.executable == "id"'\nreason = "no id in this fleet"\n`,
      );
      const target = { channel: "fleet", version: "1.0.0" };
      await Workspace.change(publisher.dir, async (workspace) => {
        const place = await openRelease(workspace, target);
        const bundle = await describeBundle(workspace, place, await packBundle(policy));
        await addEntries(workspace, target, { bundles: [bundle] });
      });
      await publisher.sign();
      await publisher.publish();
      await all((sbx) => sbx.ok("fleet", "update"));
      await all((sbx) =>
        eventually("the new rule blocks", async () => {
          const { code, stderr } = await exec(sbx, "id");
          return code === 126 && stderr.includes("no id in this fleet");
        })
      );
      await eventually("the receiver knows what is in force", async () => {
        const { stdout } = await admin("fleet", "machines", store, "--json");
        const told: { in_force?: { bundle?: string } }[] = JSON.parse(stdout).machines;
        return told.length === MACHINES && told.every(({ in_force }) => in_force?.bundle === "fleet 1.0.0");
      });
    });

    await t.step("every row of every session arrives, whatever was killed", async () => {
      await all((sbx) => sbx.ok("stop", "dev"));
      let check: FleetCheck | undefined;
      await eventually("the record of every machine is complete", async () => {
        const { code, stdout } = await admin("fleet", "verify", store, "--json");
        check = JSON.parse(stdout);
        return code === 0 && check!.machines.every(({ sessions }) => sessions[0]?.state === "complete");
      });
      assertEquals([check!.ok, check!.machines.length], [true, MACHINES]);
      for (const { sessions } of check!.machines) {
        assertEquals(sessions.length, 1);
        assert(sessions[0].events > 2 * ROUNDS, `${sessions[0].events} events`);
      }
      for (const sbx of machines) await sbx.ok("fleet", "status");
    });

    await t.step("questions are answered for all machines", async () => {
      const tables = await admin("fleet", "tables", store);
      assertEquals(tables.code, 0, tables.stderr);
      const ask = async (...args: string[]) =>
        JSON.parse(await machines[0].ok("fleet", "ask", ...args, "--over", `duckdb://${store}`, "--json"))
          .rows;
      const ran = await ask("ran", "uname");
      assertEquals(new Set(ran.map(({ machine }: { machine: string }) => machine)).size, MACHINES);
      const blocked: { rule_id?: string; rule?: string }[] = await ask("blocked");
      assert(JSON.stringify(blocked).includes("no-id"), JSON.stringify(blocked));
      assertEquals(await ask("reached-host", "evil.example.net"), []);
    });
  } finally {
    await receiver.kill();
    await all((sbx) => sbx.dispose());
    await publisher[Symbol.asyncDispose]();
    await Deno.remove(dir, { recursive: true });
  }
});
