/** The host end of a guest link, against a misbehaving guest over real sockets. */
import { GUEST_VERSION } from "../../../../lib/machine/guest/wire/mod.ts";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { encodeFrame, FrameChannel } from "../../../../lib/base/wire/mod.ts";
import {
  checkBootConfig,
  type GuestBoot,
  GuestLink,
  TERMINALS_MAX,
} from "../../../../lib/machine/guest/mod.ts";
import { vsockPath } from "../../../../lib/machine/vm/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

async function withLink(
  work: (link: GuestLink, connect: (port: number) => Promise<Deno.Conn>) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const link = new GuestLink(dir);
  const open: Deno.Conn[] = [];
  link.listen();
  try {
    await work(link, async (port) => {
      const conn = await Deno.connect({ transport: "unix", path: vsockPath(dir, port) });
      open.push(conn);
      return conn;
    });
  } finally {
    link.close();
    for (const conn of open) {
      try {
        conn.close();
      } catch {
        // the test closed it already
      }
    }
    await Deno.remove(dir, { recursive: true });
  }
}

/** Connects as a guest and completes the handshake. */
async function bootedGuest(connect: (port: number) => Promise<Deno.Conn>): Promise<FrameChannel> {
  const control = new FrameChannel(await connect(5000));
  await control.send({ t: "Ready", version: GUEST_VERSION });
  while ((await control.next() as { t: string }).t !== "BootConfigDone");
  await control.send({ t: "BootReady", stages: [] });
  return control;
}

/** What a guest is told. */
const bootOf = (change: Partial<GuestBoot> = {}): GuestBoot => ({
  id: "6f1e9a52-0b7c-4d3e-8f21-9a4b5c6d7e8f",
  name: "demo",
  env: {},
  files: [],
  ...change,
});

const code = async (promise: Promise<unknown>) => (await assertRejects(() => promise, SbxError)).code;

for (
  const [what, bytes] of Object.entries({
    "a 2 GiB frame length": new Uint8Array([0x80, 0, 0, 0]),
    "bytes that are not JSON": new Uint8Array([0, 0, 0, 3, 1, 2, 3]),
    "an unknown message": encodeFrame({ t: "Reboot" }),
    "a field too many": encodeFrame({ t: "Ready", version: GUEST_VERSION, more: true }),
    "a wrong type": encodeFrame({ t: "BootReady", stages: "none" }),
  })
) {
  Deno.test(`a guest that sends ${what} on its control connection does not boot`, () =>
    withLink(async (link, connect) => {
      const boot = link.boot(bootOf());
      const conn = await connect(5000);
      await conn.write(bytes);
      assertEquals(await code(boot), "guest.failed");
    }));
}

Deno.test("one terminal more than the limit is vm.busy, until the guest has closed another", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await boot;
    const size = { cols: 80, rows: 24 };
    const shell = link.terminal(size);
    const terminals = Array.from(
      { length: TERMINALS_MAX - 1 },
      () => link.terminal(size, { argv: ["sleep", "9"] }),
    );
    assertEquals(link.terminal(size), shell, "the shared one is open");
    assertEquals(assertThrows(() => link.terminal(size, { argv: ["sleep", "9"] }), SbxError).code, "vm.busy");
    await terminals[0].hangUp();
    assertThrows(() => link.requireRoom(), SbxError, "128 open terminals");
    await control.send({ t: "PtyExited", id: terminals[0].id, exit_code: 0 });
    await eventually("room for a terminal", () => {
      try {
        link.requireRoom();
        return true;
      } catch {
        return false;
      }
    });
    assertEquals(link.terminal(size, { argv: ["sleep", "9"] }).ended, false);
  }));

Deno.test("an agent of another version is refused with a hint", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    await new FrameChannel(await connect(5000)).send({ t: "Ready", version: "99" });
    const error = await assertRejects(() => boot, SbxError);
    assertEquals([error.code, error.hint], [
      "vm.boot_failed",
      "build the image of its profile again: sbx image build PROFILE",
    ]);
  }));

Deno.test("the handshake sends variables, then files, then the end, in that order", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(
      bootOf({ env: { A: "1", B: "2" }, files: [{ path: "/etc/x", content: "eA==", mode: 0o600 }] }),
    );
    const control = new FrameChannel(await connect(5000));
    await control.send({ t: "Ready", version: GUEST_VERSION });
    const messages: unknown[] = [];
    while ((messages.at(-1) as { t: string } | undefined)?.t !== "BootConfigDone") {
      messages.push(await control.next());
    }
    const { epoch_ms, seed, ...identity } = messages[0] as Record<string, never>;
    assertEquals(identity, {
      t: "BootConfig",
      hostname: "demo",
      machine_id: "6f1e9a520b7c4d3e8f219a4b5c6d7e8f",
    });
    assertEquals([typeof epoch_ms, Uint8Array.fromBase64(seed).length], ["number", 64]);
    assertEquals(messages.slice(1), [
      { t: "SetEnv", key: "A", value: "1" },
      { t: "SetEnv", key: "B", value: "2" },
      { t: "FileWrite", path: "/etc/x", content: "eA==", mode: 0o600 },
      { t: "BootConfigDone" },
    ]);
    await control.send({ t: "BootReady", stages: [{ name: "agent", ms: 5 }] });
    assertEquals(await boot, [{ name: "agent", ms: 5 }]);
  }));

Deno.test("a guest may have user namespaces where its VM has that ability", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf({ abilities: ["rosetta", "user_namespaces"] }));
    const control = new FrameChannel(await connect(5000));
    await control.send({ t: "Ready", version: GUEST_VERSION });
    assertEquals((await control.next() as { user_namespaces?: boolean }).user_namespaces, true);
    while ((await control.next() as { t: string }).t !== "BootConfigDone");
    await control.send({ t: "BootReady", stages: [] });
    await boot;
  }));

Deno.test("the guest's clock is compared with the middle of its question and its answer; an answer to no question is nothing", () =>
  withLink(async (link, connect) => {
    const booting = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await booting;
    const reading = link.readClock();
    const { t, id } = await control.next() as { t: string; id: string };
    assertEquals(t, "Clock");
    await control.send({ t: "Clock", id: "0".repeat(32), epoch_ms: 0 });
    await control.send({ t: "Clock", id, epoch_ms: Date.now() - 500 });
    const { slowMs, errorMs } = await reading;
    assert(Math.abs(slowMs - 500) <= errorMs + 1, `${slowMs} ± ${errorMs}`);
    await link.shiftClock(slowMs);
    assertEquals(await control.next(), { t: "ClockShift", ms: slowMs });
  }));

Deno.test("a second control connection, and garbage on the other ports, change nothing", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await boot;
    for (const port of [5000, 5001, 5005]) {
      const conn = await connect(port);
      await conn.write(new Uint8Array([0xff, 0xff, 0xff, 0xff, 0])).catch(() => {});
      assertEquals(await conn.read(new Uint8Array(1)).catch(() => null), null, `port ${port}`);
    }
    const visible = link.awaitFile("/workspace/a", 1);
    const { id } = await control.next() as { id: string };
    await control.send({ t: "FileVisible", id, visible: true });
    assertEquals(await visible, true);
  }));

Deno.test("a program's output is limited even if the guest ignores the limit", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await boot;
    let received = 0;
    const run = link.exec({ argv: ["x"], stdin: false, limit: 1000 }, {
      output: (_, data) => Promise.resolve(void (received += Uint8Array.fromBase64(data).length)),
      input: () => new Promise(() => {}),
    });
    const { id } = await control.next() as { id: string };
    const streams = new FrameChannel(await connect(5005));
    await streams.send({ t: "ExecStarted", id });
    for (let i = 0; i < 10; i++) {
      await streams.send({ stream: "stdout", data: new Uint8Array(300).toBase64() });
    }
    await streams.send({ stream: "stdout", end: true });
    await control.send({ t: "ExecExited", id, exit_code: 0, truncated: true, duration_ms: 1 });
    assertEquals((await run).exit_code, 0);
    assertEquals(received, 900);
  }));

for (
  const [what, frames] of Object.entries({
    "is not base64": [{ stream: "stdout", data: "not base64!" }],
    "breaks off": [{ stream: "stdout", data: "eA==" }],
  })
) {
  Deno.test(`output that ${what} fails the program instead of ending it early`, () =>
    withLink(async (link, connect) => {
      const boot = link.boot(bootOf());
      const control = await bootedGuest(connect);
      await boot;
      const run = link.exec({ argv: ["x"], stdin: false }, {
        output: () => Promise.resolve(),
        input: () => new Promise(() => {}),
      });
      const { id } = await control.next() as { id: string };
      const streams = new FrameChannel(await connect(5005));
      await streams.send({ t: "ExecStarted", id });
      for (const frame of frames) await streams.send(frame);
      await streams.finish();
      await control.send({ t: "ExecExited", id, exit_code: 0, truncated: false, duration_ms: 1 });
      assertEquals(await code(run), "guest.failed");
    }));
}

Deno.test("ids cannot be guessed, and only the first connection of a program or terminal counts", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await boot;
    let output = "";
    const run = link.exec({ argv: ["x"], stdin: false }, {
      output: (_, data) => Promise.resolve(void (output += atob(data))),
      input: () => new Promise(() => {}),
    });
    const exec = await control.next() as { id: string };
    const terminal = link.terminal({ cols: 80, rows: 24 }, { argv: ["y"] });
    const open = await control.next() as { id: string };
    for (const { id } of [exec, open]) assertEquals(/^[0-9a-f]{32}$/.test(id), true, id);

    const [streams, late] = [new FrameChannel(await connect(5005)), new FrameChannel(await connect(5005))];
    for (const channel of [streams, late]) {
      await channel.send({ t: "ExecStarted", id: exec.id });
      if (channel === late) assertEquals(await channel.next().catch(() => null), null);
      else await channel.send({ stream: "stdout", data: btoa("mine") });
    }
    await streams.send({ stream: "stdout", end: true });
    await control.send({ t: "ExecExited", id: exec.id, exit_code: 0, truncated: false, duration_ms: 1 });
    await run;
    assertEquals(output, "mine");

    const [screen, spy] = [await connect(5001), await connect(5001)];
    for (const conn of [screen, spy]) {
      await conn.write(encodeFrame({ t: "Attach", id: open.id }));
      if (conn === spy) assertEquals(await conn.read(new Uint8Array(1)).catch(() => null), null);
      else await terminal.type(new Uint8Array([1]));
    }
    await terminal.type(new Uint8Array([2]));
    const typed = new Uint8Array(8);
    for (let at = 0; at < 2;) at += (await screen.read(typed.subarray(at)))!;
    assertEquals(typed.subarray(0, 2), new Uint8Array([1, 2]));
  }));

Deno.test("a guest that says nothing of a file does not hold up its writer", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    await bootedGuest(connect);
    await boot;
    assertEquals(await link.awaitFile("/workspace/a", 1, 50), false);
  }));

Deno.test("a guest that ends during a program causes an error, not a hang", () =>
  withLink(async (link, connect) => {
    const boot = link.boot(bootOf());
    const control = await bootedGuest(connect);
    await boot;
    const run = link.exec({ argv: ["x"], stdin: false }, {
      output: () => Promise.resolve(),
      input: () => new Promise(() => {}),
    });
    await control.next();
    control.close();
    assertEquals(await code(run), "guest.failed");
  }));

Deno.test("the boot configuration has limits and never sets variables that change how programs load", () => {
  const refused = (
    env: Record<string, string>,
    files: { path: string; content: string; mode: number }[] = [],
  ) => assertThrows(() => checkBootConfig(env, files), SbxError).code;
  const file = (path: string, content = "") => ({ path, content, mode: 0o600 });
  for (
    const name of [
      "LD_PRELOAD",
      "LD_LIBRARY_PATH",
      "IFS",
      "BASH_ENV",
      "ENV",
      "PROMPT_COMMAND",
      "BASH_FUNC_ls%%",
    ]
  ) {
    assertEquals(refused({ [name]: "x" }), "boot.invalid", name);
  }
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`V${i}`, ""]));
  checkBootConfig(many(128), Array.from({ length: 64 }, (_, i) => file(`/etc/${i}`)));
  assertEquals(refused(many(129)), "boot.invalid");
  assertEquals(refused({}, Array.from({ length: 65 }, (_, i) => file(`/etc/${i}`))), "boot.invalid");
  assertEquals(refused({}, [file("/etc/big", "A".repeat(14 * 1024 * 1024))]), "boot.invalid");
  const large = (bytes: number) => Object.fromEntries([0, 1].map((at) => [`V${at}`, "x".repeat(bytes / 2)]));
  assertEquals(refused(large(10 * 1024 * 1024)), "boot.invalid");
  assertEquals(
    refused(large(1024 * 1024), [file("/etc/big", "A".repeat(12.5 * 1024 * 1024))]),
    "boot.invalid",
  );
  checkBootConfig(large(512 * 1024), [file("/etc/big", "A".repeat(12.5 * 1024 * 1024))]);
  assertEquals(refused({}, [file("etc/x")]), "boot.invalid");
  assertEquals(refused({}, [file("/etc/../x")]), "boot.invalid");
});
