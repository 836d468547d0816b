/**
 * Connections between a guest's vsock and the host's Unix sockets. The machine is paused, and the test takes
 * the guest's part: it connects to the sockets of vhost-device-vsock.
 */
import { assert, assertEquals } from "@std/assert";
import { refused, until, World } from "./world.ts";

const MEBIBYTE = 1024 * 1024;

Deno.test("bytes of the guest's connections arrive in both directions, also after the end of one", async () => {
  await using paused = await pausedWorld();
  const { guest, host } = paused;
  const conns = 24;
  const served = serve(host, conns);
  await Promise.all(Array.from({ length: conns }, async (_, index) => {
    using conn = await guest();
    const bytes = noise(MEBIBYTE / 4 * (index % 5) + index, index);
    const answer = readAll(conn);
    await write(conn, bytes);
    await conn.closeWrite();
    const got = await answer;
    assertEquals(got.length, 2 * bytes.length);
    assertEquals(await digest(got), await digest(joined(bytes, bytes)));
  }));
  await served;
});

Deno.test("a receiver that does not read holds its sender up, and all arrives when it does", async () => {
  await using paused = await pausedWorld();
  using sender = await paused.guest();
  using receiver = await paused.host.accept();
  const bytes = noise(8 * MEBIBYTE, 1);
  let isWritten = false;
  const writing = write(sender, bytes).then(() => isWritten = true).then(() => sender.closeWrite());
  await new Promise((resolve) => setTimeout(resolve, 300));
  assertEquals(isWritten, false, "nobody keeps 8 MiB");
  assertEquals(await digest(await readAll(receiver)), await digest(bytes));
  await writing;
});

Deno.test("connections are closed when nobody listens, when the other side breaks off, and when the machine ends", async () => {
  await using paused = await pausedWorld();
  {
    using lost = await paused.guest(5001);
    assertEquals((await readAll(lost)).length, 0, "nobody listens on the host's socket");
  }
  {
    using conn = await paused.guest();
    (await paused.host.accept()).close();
    await write(conn, noise(MEBIBYTE, 1)).catch(() => {});
    assertEquals((await readAll(conn)).length, 0);
  }
  using guest = await paused.guest();
  using host = await paused.host.accept();
  await paused.stop();
  assertEquals([(await readAll(guest)).length, (await readAll(host)).length], [0, 0]);
});

Deno.test("a port that is added; no vsock, no port; and nobody in the guest listens", async () => {
  await using paused = await pausedWorld();
  await paused.vm.listen(7000);
  await paused.vm.listen(7000);
  using added = Deno.listen({ transport: "unix", path: `${paused.world.dir}/v_7000` });
  using guest = await paused.guest(7000);
  using host = await added.accept();
  await write(guest, new Uint8Array([7]));
  assertEquals(await host.read(new Uint8Array(2)), 1);
  await refused(paused.vm.connect(9999, `${paused.world.dir}/v_7000`), "state.invalid");
  await using bare = await World.make();
  const vm = bare.create();
  await vm.start();
  await refused(vm.listen(7000), "feature.missing");
});

Deno.test("a guest has 1024 connections at once: one more is closed, and the others go on", async () => {
  await using paused = await pausedWorld();
  const pairs: Deno.Conn[][] = [];
  try {
    for (let count = 0; count < 1024; count++) pairs.push([await paused.guest(), await paused.host.accept()]);
    pairs.push([await paused.guest(), await paused.host.accept()]);
    assertEquals((await readAll(pairs[1024][0])).length, 0);
    for (const [guest, host] of [pairs[0], pairs[1023]]) {
      await write(guest, new Uint8Array([7]));
      assertEquals(await host.read(new Uint8Array(2)), 1);
    }
  } finally {
    pairs.flat().forEach((conn) => conn.close());
  }
});

Deno.test("a thousand connections leave no descriptor", async () => {
  await using paused = await pausedWorld();
  const count = async () => (await Array.fromAsync(Deno.readDir("/proc/self/fd"))).length;
  const before = await count();
  for (let index = 0; index < 1000; index++) {
    using guest = await paused.guest();
    using host = await paused.host.accept();
    if (index % 2 === 0) await write(guest, new Uint8Array(10));
    else await write(host, new Uint8Array(10));
  }
  // Dispatch keeps a few of its own.
  await until(async () => await count() <= before + 8, "closing every descriptor");
});

/** Answers connections: reads each to its end, then sends twice as much back. */
async function serve(listener: Deno.Listener, conns: number): Promise<void> {
  const answers: Promise<void>[] = [];
  while (answers.length < conns) answers.push(answer(await listener.accept()));
  await Promise.all(answers);
}

async function answer(accepted: Deno.Conn): Promise<void> {
  using conn = accepted;
  const request = await readAll(conn);
  await write(conn, request);
  await write(conn, request);
  await conn.closeWrite();
  await readAll(conn);
}

/** A paused machine with ports 5000, on which a test listens, and 5001. */
async function pausedWorld() {
  const world = await World.make({ ports: [5000, 5001] });
  const vm = world.create();
  const host = Deno.listen({ transport: "unix", path: `${world.dir}/v_5000` });
  await vm.start();
  await vm.pause();
  return {
    world,
    vm,
    host,
    guest: (port = 5000) => Deno.connect({ transport: "unix", path: `${world.dir}/q/v_${port}` }),
    stop: () => vm.stop(),
    async [Symbol.asyncDispose]() {
      host.close();
      await world[Symbol.asyncDispose]();
    },
  };
}

async function write(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Until its end, or until it breaks off. */
async function readAll(conn: Deno.Conn): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  const buffer = new Uint8Array(64 * 1024);
  for (let count; (count = await conn.read(buffer).catch(() => null)) !== null;) {
    parts.push(buffer.slice(0, count));
  }
  return joined(...parts);
}

function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Bytes without a short period. */
function noise(size: number, seed: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let state = seed + 1;
  for (let at = 0; at < size; at++) bytes[at] = (state = Math.imul(state, 1664525) + 1013904223) >>> 24;
  assert(size < 256 || new Set(bytes.subarray(0, 256)).size > 64);
  return bytes;
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}
