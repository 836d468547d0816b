/**
 * `sbx fleet simulate` with a signed bundle: verified, joined with what corp.toml of this
 * machine says, over the fleet's past.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { packBundle } from "../../lib/fleet/bundle/mod.ts";
import { writeTables } from "../../lib/fleet/table/mod.ts";
import { addEntries, describeBundle, openRelease, TRUST, Workspace } from "../../lib/publish/mod.ts";
import { runChild } from "../helper/child.ts";
import { record, SESSION_A, TestFleet, webEvent } from "../helper/fleet.ts";
import { ReleaseWorkspace } from "../helper/release_workspace.ts";
import { fromRoot } from "../helper/repo.ts";

Deno.test("a bundle is simulated if its signature is good, and not otherwise", async () => {
  await using fleet = await TestFleet.start();
  const hosts = ["good.example.com", "evil.example.net", "evil.example.net"];
  const path = `${fleet.dir}/${SESSION_A}.db`;
  const decision = { decision: "allow", rule: { id: "allow-web" } };
  await record(path, SESSION_A, hosts.map((host) => ({ event: webEvent(SESSION_A, host), decision })));
  await fleet.shipper(await fleet.machine()).ship(SESSION_A, path);
  await writeTables(fleet.store);
  await using publisher = await ReleaseWorkspace.make(Date.now() - 5 * 86_400_000);
  const policy = join(fleet.dir, "policy");
  await Deno.mkdir(policy);
  await Deno.writeTextFile(
    join(policy, "corp.toml"),
    `[corp.rules.no-evil]\naction = "block"\nmatch = 'http.request.host == "evil.example.net"'\n`,
  );
  const target = { channel: "fleet", version: "1.0.0" };
  await Workspace.change(publisher.dir, async (workspace) => {
    const place = await openRelease(workspace, target);
    await addEntries(workspace, target, {
      bundles: [await describeBundle(workspace, place, await packBundle(policy))],
    });
  });
  await publisher.sign();
  await publisher.publish();
  const simulate = async (...options: string[]) => {
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), {
      args: [
        "fleet",
        "simulate",
        publisher.out,
        "--over",
        `duckdb://${fleet.store}`,
        "--days",
        "3000",
        ...options,
      ],
      env: { SBX_HOME: join(fleet.dir, "home"), NO_COLOR: "1" },
    });
    return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
  };
  const trust = ["--trust", join(publisher.dir, TRUST)];
  const { code, out, err } = await simulate(...trust, "--json");
  assertEquals(code, 1, err);
  assertEquals(JSON.parse(out).policy.changes, [{ from: "allow", to: "block", count: 2 }]);
  const missing = await simulate(...trust, "--release", "2.0.0");
  assert(missing.code === 1 && missing.err.includes("there is no release 2.0.0"), missing.err);
  // Another publisher's keys, and other bytes under a good signature.
  await using other = await ReleaseWorkspace.make(Date.now() - 5 * 86_400_000);
  await other.sign();
  const stranger = await simulate("--trust", join(other.dir, TRUST));
  assert(stranger.code === 1 && stranger.err.includes("none of them trusted"), stranger.err);
  const bundle = join(publisher.out, "assets/fleet/1.0.0/bundle.json");
  await Deno.writeTextFile(bundle, (await Deno.readTextFile(bundle)).replace("block", "allow"));
  const changed = await simulate(...trust);
  assert(changed.code === 1 && changed.err.includes("bundle.json"), changed.err);
});
