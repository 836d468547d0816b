/** A guest at the address of the gateway: ports of a VM, chosen by an agent, while the gateway is away. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { requireVmEnv } from "../../../cmd/mcp/tools/vm.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { Ports } from "../../../lib/session/forward/mod.ts";
import { reservedPorts } from "../../../lib/base/port/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("a VM's port never gets the address of a gateway that is away, nor one that is configured", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-port-" });
  const env = { SBX_HOME: dir, SBX_GATEWAY_PORT: "0", NO_COLOR: "1" };
  const sbx = async (...args: string[]) => {
    const command = new Deno.Command(fromRoot("bin/sbx"), { args, env, stdout: "null", stderr: "null" });
    assertEquals((await limitChild(command.spawn()).status).code, 0, args.join(" "));
  };
  const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const portOf = async () => Number(await Deno.readTextFile(place.gatewayPortFile));
  const had: number[] = [];
  for (let start = 0; start < 2; start++) {
    await sbx("start");
    had.push(await portOf());
    await sbx("stop");
  }
  const configured = freePort();
  const reserved = () => reservedPorts(place, { get: () => String(configured) });
  const user = { client: "test" };
  const recorder = { opening: () => Promise.resolve("event"), closed: () => {} };
  const ports = new Ports(() => Promise.resolve(0), recorder, reserved);
  try {
    const wanted = [...had, configured, 19222, 19223];
    await ports.offer(wanted, user);
    assertEquals(ports.list().length, wanted.length);
    for (const { guest_port, host_port } of ports.list()) {
      assert(
        wanted.includes(guest_port) && !wanted.includes(host_port),
        `${host_port} leads to ${guest_port}`,
      );
    }
    for (const port of wanted) {
      assertEquals((await assertRejects(() => ports.open(5173, user, port), SbxError)).code, "port.reserved");
    }
    // The gateway gets its own again.
    await sbx("start", "--port", String(had[0]));
    assertEquals(await portOf(), had[0]);
  } finally {
    ports.closeAll();
    await sbx("stop", "--all");
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("an agent sets variables of a VM from a list of names, and is given the reason for others", () => {
  requireVmEnv(undefined);
  requireVmEnv({ NODE_ENV: "test", TZ: "UTC", LC_ALL: "C", APP_MODE: "a", DATABASE_URL: "x", PORT: "3000" });
  const refused: [string, string][] = [
    ["SBX_DEV_PORTS", "steers sbx"],
    ["sbx_home", "steers sbx"],
    ["LD_PRELOAD", "libraries"],
    ["HTTPS_PROXY", "elsewhere"],
    ["https_proxy", "elsewhere"],
    ["ANTHROPIC_API_KEY", "stay on the host"],
    ["DB_PASSWORD", "stay on the host"],
    ["PATH", "not on the list"],
    ["NODE_OPTIONS", "not on the list"],
    ["BASH_ENV", "not on the list"],
    ["GIT_SSH_COMMAND", "not on the list"],
    ["APP_x", "not on the list"],
    ["TZ\n", "not on the list"],
  ];
  for (const [name, reason] of refused) {
    const error = assertThrows(() => requireVmEnv({ TZ: "UTC", [name]: "1" }), SbxError, reason);
    assertEquals(error.code, "mcp.env_refused");
    assert(error.message.includes(JSON.stringify(name).slice(1, -1)) && !error.message.includes("TZ:"));
  }
});

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}
