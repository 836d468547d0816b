/** vsock ports of a guest whose programs open too many connections, over real sockets. */
import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { encodeFrame } from "../../../../lib/base/wire/mod.ts";
import { GuestPorts, type PortLimits } from "../../../../lib/machine/guest/program.ts";
import { vsockPath } from "../../../../lib/machine/vm/mod.ts";
import { fromRoot } from "../../../helper/repo.ts";

const PORT = 5005;

async function withPort(
  limits: PortLimits,
  work: (connect: () => Promise<Deno.Conn>, ports: GuestPorts) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const ports = new GuestPorts(dir);
  const open: Deno.Conn[] = [];
  // Answers each frame with itself.
  const echo = ports.accept(PORT, async (channel) => {
    for await (const frame of channel.reader) await channel.send(frame);
  }, limits);
  try {
    await work(async () => {
      open.push(await Deno.connect({ transport: "unix", path: vsockPath(dir, PORT) }));
      return open.at(-1)!;
    }, ports);
  } finally {
    ports.close();
    await echo;
    for (const conn of open) conn.close();
    await Deno.remove(dir, { recursive: true });
  }
}

/** Sends a frame. @returns whether it is answered, or the connection closed */
async function isServed(conn: Deno.Conn): Promise<boolean> {
  return await conn.write(encodeFrame({})).then(() => conn.read(new Uint8Array(16))).catch(() => null) !==
    null;
}

Deno.test("a silent connection makes room for a new one; one that has sent a frame stays", () =>
  withPort({ maxConnections: 3 }, async (connect) => {
    const used = await connect();
    assertEquals(await isServed(used), true);
    const silent = [await connect(), await connect()];
    const more = await connect();
    assertEquals(await isServed(more), true);
    assertEquals(await isServed(silent[0]), false, "the oldest silent one is closed");
    assertEquals(await isServed(silent[1]), true);
    assertEquals(await isServed(await connect()), false, "nobody is silent any more");
    assertEquals(await isServed(used), true);
  }));

Deno.test("a connection that sends no frame in time is closed", () =>
  withPort({ firstFrameMs: 50 }, async (connect) => {
    const [silent, used] = [await connect(), await connect()];
    assertEquals(await isServed(used), true);
    assertEquals(await silent.read(new Uint8Array(1)).catch(() => null), null);
    assertEquals(await isServed(used), true);
  }));

Deno.test("no connection of a paused guest is closed before it runs: its vsock must get nothing", () =>
  withPort({ firstFrameMs: 50 }, async (connect, ports) => {
    const silent = await connect();
    await ports.hold();
    const closed = silent.read(new Uint8Array(1)).catch(() => null);
    const isOpen = await Promise.race([
      closed.then(() => false),
      new Promise<true>((resolve) => setTimeout(() => resolve(true), 200)),
    ]);
    assertEquals(isOpen, true);
    ports.release();
    assertEquals(await closed, null);
  }));

Deno.test("a process without free descriptors serves its guest again once it has some", async () => {
  const dir = await Deno.makeTempDir();
  // Takes every descriptor, and frees them when it is told to.
  await Deno.writeTextFile(
    join(dir, "host.ts"),
    `import { GuestPorts } from ${JSON.stringify(fromRoot("lib/machine/guest/program.ts"))};
    const ports = new GuestPorts(${JSON.stringify(dir)});
    const served = ports.accept(${PORT}, async (channel) => {
      for await (const frame of channel.reader) await channel.send(frame);
    });
    // Deno opens the pipe of its signals some time after the start, and panics where it cannot.
    Deno.addSignalListener("SIGUSR2", () => {});
    const files = [];
    try {
      while (true) files.push(Deno.openSync("/dev/null"));
    } catch {
      console.log("none is free");
    }
    await Deno.stdin.read(new Uint8Array(1));
    for (const file of files) file.close();
    await Deno.stdin.read(new Uint8Array(1));
    ports.close();
    await served;`,
  );
  const deno = [
    Deno.execPath(),
    "run",
    "--no-check",
    // Written in the background, by a program that has no descriptor left for that.
    "--no-code-cache",
    "-A",
    "--config",
    fromRoot("deno.json"),
    join(dir, "host.ts"),
  ];
  const host = new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 128; exec "$@"', "sh", ...deno],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const orders = host.stdin.getWriter();
  const output = host.stdout.getReader();
  try {
    await output.read();
    const waiting = await Deno.connect({ transport: "unix", path: vsockPath(dir, PORT) });
    // The host has tried to accept it by now, and failed.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await orders.write(new Uint8Array(1));
    assertEquals(await isServed(waiting), true);
    waiting.close();
    await orders.write(new Uint8Array(1));
    assertEquals((await host.status).code, 0);
  } finally {
    await orders.close().catch(() => {});
    await output.cancel();
    await host.status;
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a port replaces the socket of a process that was killed", async () => {
  const dir = await Deno.makeTempDir();
  const left = join(dir, "left");
  const before = Deno.listen({ transport: "unix", path: left });
  // A process that is killed removes nothing: the name stays, and nobody listens.
  await Deno.rename(left, vsockPath(dir, PORT));
  before.close();
  const ports = new GuestPorts(dir);
  const served = ports.accept(PORT, async (channel) => {
    for await (const frame of channel.reader) await channel.send(frame);
  });
  try {
    using conn = await Deno.connect({ transport: "unix", path: vsockPath(dir, PORT) });
    assertEquals(await isServed(conn), true);
  } finally {
    await ports.close();
    await served;
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a port that cannot be listened on is an error at once", () => {
  assertThrows(() => new GuestPorts("/nonexistent").accept(PORT, () => Promise.resolve()));
});
