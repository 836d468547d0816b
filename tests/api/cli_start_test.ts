/** sbx start and stop, and commands that start what is missing: the real CLI, service and gateway. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { basename, dirname, join } from "node:path";
import { sessionPaths, writeRecord } from "../../lib/session/mod.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { recordOf } from "../helper/vm.ts";
import { Place } from "./cli_harness.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("cli: starts missing processes once, and stops them", options, async () => {
  await using place = await Place.make();
  const both = await Promise.all([place.sbx(["list"]), place.sbx(["start", "--json"])]);
  assertEquals(both.map(({ code }) => code), [0, 0], both.map(({ stderr }) => stderr).join());
  const pid = Number(await Deno.readTextFile(place.home.gatewayPidFile));
  const again = await place.sbx(["start", "--json"]);
  assertEquals(JSON.parse(again.stdout).started, []);
  assertEquals(JSON.parse(again.stdout).pids.gateway, pid);
  assertEquals(await Deno.readTextFile(`/proc/${pid}/stat`).then((text) => Number(text.split(" ")[5])), pid);
  const other = await place.sbx(["start", "--port", "1"]);
  assertEquals([other.code, /gateway is already running at/.test(other.stderr)], [1, true]);
  const stopped = await place.sbx(["stop", "--json"]);
  assertEquals(JSON.parse(stopped.stdout), { stopped: ["gateway"], vms: [], running: [] });
  assertEquals((await place.sbx(["stop"])).stdout, "sbx is not running\n");
  assertEquals((await place.sbx(["start"])).code, 0);
  assertEquals((await place.sbx(["stop", "-a"])).stdout, "stopped: VM demo, gateway\n");
  assertEquals(place.stops, ["00000000-0000-4000-8000-000000000001"]);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken = await place.sbx(["list", "--json"], {
    env: { SBX_GATEWAY_PORT: String(listener.addr.port) },
  });
  listener.close();
  assertEquals(taken.code, 1);
  assertEquals(JSON.parse(taken.stderr.split("\n")[1]).code, "gateway.port_taken");
});

Deno.test("cli: stop names the VMs that run on without a service", options, async () => {
  await using place = await Place.make();
  const paths = sessionPaths(place.home, crypto.randomUUID());
  await Deno.mkdir(paths.dir, { recursive: true });
  await Deno.mkdir(dirname(paths.socket), { recursive: true });
  await writeRecord(paths, recordOf(basename(paths.dir), "dev"));
  const listener = Deno.listen({ transport: "unix", path: paths.socket });
  const { code, stdout, stderr } = await place.sbx(["stop"]);
  assertEquals([code, stdout], [0, "sbx is not running\n"]);
  assertEquals(stderr, "sbx: 1 VM runs on (dev): sbx stop --all stops them\n");
  assertEquals(JSON.parse((await place.sbx(["stop", "--json"])).stdout).running, ["dev"]);
  listener.close();
  assertEquals(JSON.parse((await place.sbx(["stop", "--json"])).stdout).running, []);
});

Deno.test("a start whose gateway cannot get its port leaves no service behind", async () => {
  const dir = await Deno.makeTempDir();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  try {
    const env = { SBX_HOME: dir, SBX_GATEWAY_PORT: String(listener.addr.port) };
    const { code, stderr } = await runChild(fromRoot("bin/sbx"), { args: ["start"], env });
    assertEquals(code, 1);
    assertMatch(new TextDecoder().decode(stderr), /another program is listening on port \d+ of this machine/);
    const left = (await Array.fromAsync(Deno.readDir(join(dir, "run")))).map(({ name }) => name);
    assertEquals(left.filter((name) => /\.(sock|pid|token)$/.test(name)), []);
  } finally {
    listener.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a service started in a folder with a relative home keeps neither", async () => {
  const dir = await Deno.makeTempDir();
  const env = { SBX_HOME: "home", SBX_TEMPLATES_DIR: "templates", SBX_GATEWAY_PORT: "0" };
  const sbx = (...args: string[]) => runChild(fromRoot("bin/sbx"), { args, env, cwd: dir });
  try {
    const started = await sbx("start");
    assertEquals(started.code, 0, new TextDecoder().decode(started.stderr));
    for (const daemon of ["service", "gateway"]) {
      const pid = (await Deno.readTextFile(join(dir, `home/run/${daemon}.pid`))).trim();
      assertEquals(await Deno.readLink(`/proc/${pid}/cwd`), "/");
      const variables = (await Deno.readTextFile(`/proc/${pid}/environ`)).split("\0");
      assert(variables.includes(`SBX_TEMPLATES_DIR=${dir}/templates`));
    }
    assertEquals((await sbx("list")).code, 0);
    // A hidden setting is read by its id, and neither listed nor changed.
    const hidden = "telemetry.latency_buckets";
    const get = await sbx("settings", "get", hidden);
    assertEquals([get.code, new TextDecoder().decode(get.stdout)], [0, "[0.005,0.05,0.5,5]\n"]);
    assertEquals((await sbx("settings", "explain", hidden)).code, 0);
    const list = new TextDecoder().decode((await sbx("settings", "list")).stdout);
    assertEquals([list.includes("ledger.on_full"), list.includes(hidden)], [true, false]);
    const set = await sbx("settings", "set", hidden, "1");
    assertMatch(new TextDecoder().decode(set.stderr), /the setting telemetry\.latency_buckets is hidden/);
    assertEquals((await sbx("settings", "get", "ledger.on_ful")).code, 1);
    assertEquals(new TextDecoder().decode((await sbx("stop")).stdout), "stopped: gateway, service\n");
  } finally {
    await sbx("stop");
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a gateway whose default port is taken takes a free one, and clients find it", async () => {
  const dir = await Deno.makeTempDir();
  // Where a gateway of this machine has the port already, that one is in the way.
  const listener = await Promise.resolve().then(() => Deno.listen({ hostname: "127.0.0.1", port: 19222 }))
    .catch(() => undefined);
  const env = { SBX_HOME: dir, SBX_GATEWAY_PORT: "" };
  const sbx = (...args: string[]) => runChild(fromRoot("bin/sbx"), { args, env });
  try {
    const started = await sbx("start");
    assertEquals(started.code, 0, new TextDecoder().decode(started.stderr));
    const port = (await Deno.readTextFile(join(dir, "run/gateway.port"))).trim();
    assert(port !== "19222");
    assertEquals(
      new TextDecoder().decode(started.stdout).split("\n")[0],
      `sbx is running: http://127.0.0.1:${port}`,
    );
    assertEquals((await sbx("list")).code, 0);
  } finally {
    await sbx("stop");
    listener?.close();
    await Deno.remove(dir, { recursive: true });
  }
});
