/** Programs of a guest that stops answering: the host waits no longer than the program's limit allows. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { FrameChannel } from "../../../../lib/base/wire/mod.ts";
import { type ExecStreams, Programs } from "../../../../lib/machine/guest/program.ts";
import type { HostMessage } from "../../../../lib/machine/guest/mod.ts";

const ID = "0".repeat(32);
const REQUEST = { argv: ["true"], timeout_ms: 10, stdin: false };
const STREAMS: ExecStreams = { output: () => Promise.resolve(), input: () => Promise.resolve(null) };

/** Programs of a guest that takes messages as `send` says. */
function programsOf(send: (message: HostMessage) => Promise<void>) {
  const sent: string[] = [];
  let ids = 0;
  const control = {
    send: (message: HostMessage) => {
      sent.push(message.t);
      return send(message);
    },
    lost: new Promise<never>(() => {}),
    newId: () => (ids++).toString(16).padStart(32, "0"),
  };
  return { programs: new Programs(control, 10), sent };
}

/** Code of the error of a promise that waits for timers only, which keep no process alive. */
async function code(promise: Promise<unknown>): Promise<string> {
  const alive = setInterval(() => {}, 1000);
  try {
    return (await assertRejects(() => promise, SbxError)).code;
  } finally {
    clearInterval(alive);
  }
}

Deno.test("a guest that takes no messages: an error at the limit, and an order to end the program", async () => {
  const { programs, sent } = programsOf(() => new Promise(() => {}));
  assertEquals(await code(programs.run(REQUEST, STREAMS)), "exec.timeout");
  assertEquals(sent, ["Exec", "ExecKill"]);
});

Deno.test("one program more than the limit is refused, and runs once another has ended", async () => {
  const { programs, sent } = programsOf(() => Promise.resolve());
  const request = { argv: ["true"], stdin: false };
  const ended = { t: "ExecExited", id: ID, exit_code: 0, truncated: false, duration_ms: 1 } as const;
  for (let i = 0; i < 128; i++) programs.run(request, STREAMS).catch(() => {});
  assertEquals(await code(programs.run(request, STREAMS)), "vm.busy");
  assertEquals(sent.length, 128);
  programs.finish({ ...ended, id: "0".repeat(31) + "1", error: "not found" });
  await new Promise((resolve) => setTimeout(resolve));
  programs.run(request, STREAMS).catch(() => {});
  assertEquals(sent.length, 129);
});

Deno.test("a kept program is found again by its id; one that the guest does not know has ended", async () => {
  const { programs, sent } = programsOf(() => Promise.resolve());
  const kept = { name: "db", request: "{}", event_id: "0123456789ab" };
  programs.run({ argv: ["db"], stdin: false }, STREAMS, undefined, kept).catch(() => {});
  assertEquals([programs.kept, programs.count], [[{ id: ID, ...kept }], 0]);
  const after = new Programs(
    { send: () => Promise.resolve(), lost: new Promise(() => {}), newId: () => ID },
    10,
    10,
  );
  const pids: number[] = [];
  const adopted = after.adopt({ id: ID, ...kept }, { ...STREAMS, started: (pid) => pids.push(pid) });
  after.started({ t: "Running", id: ID, pid: 7 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  const ended = { t: "ExecExited", id: ID, truncated: false, duration_ms: 1, inline: true } as const;
  after.finish({ ...ended, exit_code: 3 });
  assertEquals([(await adopted).exit_code, pids, after.kept], [3, [7], []]);
  const gone = after.adopt({ id: ID, ...kept }, STREAMS);
  after.finish({ ...ended, exit_code: 126, error: "it ended while the host was away" });
  assertEquals(await code(gone), "guest.failed");
  // An agent that does not know the order leaves nothing behind.
  assertEquals(await code(after.adopt({ id: ID, ...kept }, STREAMS)), "guest.failed");
  assertEquals(after.kept, []);
  assertEquals(sent, ["Exec"]);
});

Deno.test("a program that has ended without the end of its output: an error, and its connection is given up", async () => {
  const { programs, sent } = programsOf(() => Promise.resolve());
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  using guest = await Deno.connect({ transport: "unix", path: `${dir}/s` });
  using conn = await listener.accept();
  const running = programs.run(REQUEST, STREAMS);
  const failed = code(running);
  await new FrameChannel(guest).send({ t: "ExecStarted", id: ID });
  const served = programs.serve(new FrameChannel(conn));
  programs.finish({ t: "ExecExited", id: ID, exit_code: 0, truncated: false, duration_ms: 1 });
  assertEquals(await failed, "exec.timeout");
  await served;
  assertEquals(sent, ["Exec", "ExecKill"]);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a program with little output needs no connection: its pieces arrive before its end", async () => {
  const { programs } = programsOf(() => Promise.resolve());
  const got: string[] = [];
  const streams: ExecStreams = {
    ...STREAMS,
    output: async (stream, data) => {
      // A slow client holds up its own output only.
      await new Promise((resolve) => setTimeout(resolve, 5));
      got.push(`${stream} ${atob(data)}`);
    },
  };
  const running = programs.run({ argv: ["true"], stdin: false }, streams);
  programs.receive({ t: "ExecInline", id: ID, stream: "stdout", data: btoa("one") });
  programs.receive({ t: "ExecInline", id: ID, stream: "stderr", data: btoa("two") });
  programs.finish({ t: "ExecExited", id: ID, exit_code: 3, truncated: false, duration_ms: 1, inline: true });
  assertEquals((await running).exit_code, 3);
  assertEquals(got, ["stdout one", "stderr two"]);
});

Deno.test("a client that leaves is noticed, also where its program has no connection", async () => {
  const { programs, sent } = programsOf(() => Promise.resolve());
  const gone = new AbortController();
  const left = Promise.withResolvers<void>();
  const input = ["ignored"];
  const streams: ExecStreams = {
    output: () => Promise.resolve(),
    input: async () => {
      if (input.length > 0) return input.pop()!;
      await left.promise;
      gone.abort();
      return null;
    },
  };
  const running = programs.run({ argv: ["sleep"], stdin: false }, streams, gone.signal);
  programs.receive({ t: "ExecInline", id: ID, stream: "stdout", data: btoa("up") });
  left.resolve();
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(sent, ["Exec", "ExecKill"]);
  programs.finish({
    t: "ExecExited",
    id: ID,
    exit_code: 143,
    truncated: false,
    duration_ms: 1,
    inline: true,
  });
  assertEquals((await running).exit_code, 143);
});

Deno.test("output on a program's own connection follows the pieces that came before it", async () => {
  const { programs } = programsOf(() => Promise.resolve());
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  using guest = await Deno.connect({ transport: "unix", path: `${dir}/s` });
  using conn = await listener.accept();
  const got: string[] = [];
  const output = (_: string, data: string) => Promise.resolve(void got.push(atob(data)));
  const running = programs.run({ argv: ["true"], stdin: false }, { ...STREAMS, output });
  const channel = new FrameChannel(guest);
  await channel.send({ t: "ExecStarted", id: ID, inline: 1 });
  const served = programs.serve(new FrameChannel(conn));
  await channel.send({ stream: "stdout", data: btoa("second") });
  await channel.send({ stream: "stdout", end: true });
  await new Promise((resolve) => setTimeout(resolve, 20));
  programs.receive({ t: "ExecInline", id: ID, stream: "stdout", data: btoa("first") });
  programs.finish({ t: "ExecExited", id: ID, exit_code: 0, truncated: false, duration_ms: 1, inline: false });
  await running;
  assertEquals(got, ["first", "second"]);
  await served;
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a guest that sends more than the limit on its control connection is refused", () => {
  const { programs } = programsOf(() => Promise.resolve());
  programs.run({ argv: ["true"], stdin: false }, STREAMS).catch(() => {});
  const piece = { t: "ExecInline", id: ID, stream: "stdout", data: btoa("x".repeat(3000)) } as const;
  programs.receive(piece);
  assertThrows(() => programs.receive(piece), SbxError, "too much output");
  // Of a program that nobody waits for any more, the rest is dropped.
  programs.receive({ ...piece, id: "f".repeat(32) });
});
