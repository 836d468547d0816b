/**
 * sbx-tray on a D-Bus of the test's own, through a real gateway, with a small
 * upstream in place of the service.
 */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { closeBus, connectBus } from "../../lib/base/dbus/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { READ_MS } from "../../lib/policy/ask/limit.ts";
import { OddBus, ODDITIES } from "../helper/odd_bus.ts";
import { limitChild, runChild } from "../helper/child.ts";
import { PrivateBus } from "../helper/private_bus.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually } from "../helper/sbx.ts";
import { TrayHost } from "../helper/tray_host.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const VM = "00000000-0000-4000-8000-000000000001";
const vm = {
  id: VM,
  name: "my_vm",
  profile_id: "code",
  status: "Running",
  persistent: true,
  available_actions: ["exec", "pause", "stop"],
};
const ask = (id: string, status = "pending") => ({
  ask_id: id,
  digest: `digest-of-${id}`,
  event_id: id.slice(4),
  session_id: VM,
  event_type: "http.request",
  subject: `GET https://x/a_b<b>\u202e\n${id}`,
  rule_id: "r",
  reason: "",
  created_at: "2026-01-01T00:00:00.000Z",
  expires_at: "2026-01-01T00:01:00.000Z",
  status,
});

/** A home whose service has one VM and one ask. */
class TrayPlace implements AsyncDisposable {
  readonly calls: string[] = [];
  readonly home;
  readonly env: Record<string, string>;
  #server?: Deno.HttpServer;
  #listeners = new Set<WebSocket>();

  private constructor(readonly dir: string, address: string) {
    this.home = home(new Map([["SBX_HOME", dir]]));
    this.env = {
      SBX_HOME: dir,
      SBX_GATEWAY_PORT: "0",
      NO_COLOR: "1",
      DBUS_SESSION_BUS_ADDRESS: address,
      XDG_RUNTIME_DIR: dir,
    };
  }

  static async make(address = ""): Promise<TrayPlace> {
    const place = new TrayPlace(await Deno.makeTempDir({ prefix: "sbx-tray-" }), address);
    await Deno.mkdir(place.home.runDir);
    return place;
  }

  serve(): void {
    this.#server = Deno.serve({ path: this.home.serviceSocket, onListen() {} }, async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/events") {
        const { socket, response } = Deno.upgradeWebSocket(request);
        socket.onopen = () => this.#listeners.add(socket);
        return response;
      }
      if (request.method === "POST") this.calls.push(`${pathname} ${await request.text()}`);
      const answers: Record<string, unknown> = {
        "/vms/list": { vms: [vm] },
        "/asks": { asks: [ask("ask-1")] },
      };
      return Response.json(answers[pathname] ?? {});
    });
  }

  tell(type: string, payload: unknown): void {
    for (const socket of this.#listeners) socket.send(JSON.stringify({ type, payload }));
  }

  async sbx(program: string, args: string[] = []) {
    const { code, stderr } = await runChild(fromRoot(`bin/${program}`), { args, env: this.env });
    return { code, stderr: new TextDecoder().decode(stderr) };
  }

  tray(): Deno.ChildProcess {
    const command = new Deno.Command(fromRoot("bin/sbx-tray"), { env: this.env, stdin: "null" });
    return limitChild(command.spawn());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sbx("sbx", ["stop"]);
    await this.#server?.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("tray: without a bus, a tray or a host it says so and ends", options, async () => {
  await using bus = await PrivateBus.start();
  await using none = await TrayPlace.make();
  await using away = await TrayPlace.make("unix:path=/nowhere/bus");
  await using place = await TrayPlace.make(bus.address);
  for (const each of [none, away]) {
    const { code, stderr } = await each.sbx("sbx-tray");
    assertEquals(code, 1);
    assertMatch(
      stderr,
      /^sbx-tray: .*D-Bus session bus.* \(tray\.no_bus\)\nstart it in a desktop session.*\n$/,
    );
  }
  const withoutTray =
    /^sbx-tray: this desktop shows no tray for icons \(tray\.no_host\)\n.*AppIndicator.*\n$/;
  assertMatch((await place.sbx("sbx", ["tray"])).stderr, withoutTray);
  await using _tray = await TrayHost.open(bus, { hasHost: false });
  const { code, stderr } = await place.sbx("sbx-tray");
  assertEquals(code, 1);
  assertMatch(stderr, withoutTray);
  assertEquals((await place.sbx("sbx-tray", ["--nonsense"])).code, 2);
  for (const help of ["-h", "--help"]) assertEquals((await place.sbx("sbx-tray", [help])).code, 0);
});

Deno.test("tray: a bus that misbehaves ends it with one error and no trace", options, async () => {
  await Promise.all(ODDITIES.map(async (oddity) => {
    await using bus = await OddBus.start(oddity);
    await using place = await TrayPlace.make(bus.address);
    if (oddity === "late") {
      const greeted = await connectBus(bus.address);
      assertEquals(greeted.name, ":1.7");
      await closeBus(greeted);
    }
    const { code, stderr } = await place.sbx("sbx-tray");
    assertMatch(
      stderr,
      /^sbx-tray: the D-Bus session bus does not answer.* \(tray\.no_bus\)\n[^\n]+\n$/,
      oddity,
    );
    assertEquals(code, 1, oddity);
  }));
});

Deno.test("tray: shows VMs and asks, and does what is chosen", options, async (t) => {
  await using bus = await PrivateBus.start();
  await using host = await TrayHost.open(bus);
  await using place = await TrayPlace.make(bus.address);
  const tray = place.tray();
  const label = (id: string) => `my__vm asks: GET https://x/a__b<b>\ufffd ${id}`;
  const shows = (what: string) =>
    eventually(`the menu shows ${what}`, async () => (await host.labels()).includes(what));

  await t.step("sbx is not running", async () => {
    await eventually("the icon is there", () => host.items.length === 1);
    assertEquals(await host.labels(), [
      "sbx is not running",
      "Open the desktop",
      "Start sbx",
      "Quit (VMs keep running)",
    ]);
    assertEquals(await host.property("Status"), "Active");
    assertEquals(await Deno.readTextFile(place.home.trayPidFile), `${tray.pid}\n`);
    const second = await place.sbx("sbx-tray");
    assertEquals([second.code, second.stderr.includes("tray.already_running")], [1, true], second.stderr);
  });

  const read = () => new Promise((resolve) => setTimeout(resolve, READ_MS));
  let allow = 0;
  await t.step("a gateway comes: a VM runs, and asks", async () => {
    const before = await host.property<[number, number, Uint8Array][]>("IconPixmap");
    place.serve();
    assertEquals((await place.sbx("sbx", ["start"])).code, 0);
    await shows("1 VM running, 1 ask waiting");
    const menu = await host.menu();
    const [first] = menu;
    assertEquals(first.isEnabled, false);
    const entry = menu.find((each) => each.label === label("ask-1"))!;
    assert(entry, JSON.stringify(menu));
    assertEquals(entry.children.map((each) => each.label), ["Allow once", "Deny"]);
    allow = entry.children[0].id;
    assertEquals(menu.find((each) => each.label === "my__vm: running")!.isEnabled, false);
    assertEquals(await host.property("Status"), "NeedsAttention");
    assertEquals(await host.property("ToolTip"), ["", [], "sbx", "1 VM running, 1 ask waiting"]);
    const icon = await host.property<[number, number, Uint8Array][]>("IconPixmap");
    assertEquals(icon.map(([width, height, { length }]) => [width, height, length]), [
      [22, 22, 22 * 22 * 4],
      [32, 32, 32 * 32 * 4],
      [48, 48, 48 * 48 * 4],
    ]);
    assertNotEquals([...icon[0][2]], [...before[0][2]]);
    for (const signal of ["NewIcon", "NewStatus", "NewToolTip", "LayoutUpdated"]) {
      assert(host.signals.includes(signal), signal);
    }
  });

  await t.step("another implementation of D-Bus reads the same menu", async () => {
    const call = "com.canonical.dbusmenu.GetLayout";
    const rest = ["/MenuBar", call, "int32:0", "int32:-1", "array:string:label"];
    const args = [`--bus=${bus.address}`, "--print-reply", `--dest=${host.items[0]}`, ...rest];
    const { stdout } = await runChild("dbus-send", { args });
    assertStringIncludes(new TextDecoder().decode(stdout), 'string "my__vm: running"');
  });

  await t.step("allow, deny and pause reach the service", async () => {
    await read();
    await host.click(label("ask-1"), "Allow once");
    await eventually("it is allowed", () => place.calls.length === 1);
    place.tell("ask", ask("ask-2"));
    place.tell("ask", ask("ask-1", "allowed"));
    await shows(label("ask-2"));
    // Meant for the entry that was in this place.
    await host.click(label("ask-2"), "Allow once");
    await read();
    assertEquals(place.calls.length, 1);
    await host.click(label("ask-2"), "Deny");
    await eventually("it is denied", () => place.calls.length === 2);
    await host.click("Pause all VMs");
    await eventually("it is paused", () => place.calls.length === 3);
    assertEquals(place.calls, [
      '/asks/ask-1/resolve {"decision":"allow","scope":"once","digest":"digest-of-ask-1"}',
      '/asks/ask-2/resolve {"decision":"deny","scope":"once","digest":"digest-of-ask-2"}',
      `/vms/${VM}/pause `,
    ]);
  });

  await t.step("a late click on an ask that is over allows nothing else", async () => {
    await host.clickId(allow);
    place.tell("vm-state-changed", { ...vm, status: "Paused", available_actions: ["resume", "stop"] });
    await shows("Resume paused VMs");
    assertEquals(place.calls.length, 3);
    assertEquals((await host.labels())[0], "no VM running, 1 paused, 1 ask waiting");
  });

  await t.step("it comes back into a tray that was restarted", async () => {
    await host[Symbol.asyncDispose]();
    await using next = await TrayHost.open(bus);
    await eventually("the icon is there again", () => next.items.length === 1);
    await next.click("Quit (VMs keep running)");
    assertEquals((await tray.status).code, 0);
    assertEquals(await Deno.stat(place.home.trayPidFile).then(() => true, () => false), false);
  });

  await t.step("it ends with the session's bus, and with SIGTERM", async () => {
    await using other = await PrivateBus.start();
    const there = await TrayHost.open(other);
    place.env.DBUS_SESSION_BUS_ADDRESS = "";
    place.env.XDG_RUNTIME_DIR = other.dir;
    const first = place.tray();
    await eventually("the icon is there", () => there.items.length === 1);
    first.kill("SIGTERM");
    assertEquals((await first.status).code, 0);
    const second = place.tray();
    await eventually("the next icon is there", () => there.items.length === 2);
    await there[Symbol.asyncDispose]();
    await other.end();
    assertEquals((await second.status).code, 0);
  });
});
