/**
 * Input of a program: no more is under way to a guest than it has room for
 * (docs/design/contracts/07-guest-wire.md §7).
 */
import { assert, assertEquals } from "@std/assert";
import { FrameChannel } from "../../../../lib/base/wire/mod.ts";
import { Programs } from "../../../../lib/machine/guest/program.ts";
import {
  type ExecInput,
  type HostMessage,
  INPUT_PIECE,
  INPUT_WINDOW,
} from "../../../../lib/machine/guest/wire/mod.ts";

/** Two ends of a connection. */
async function channels(): Promise<[FrameChannel, FrameChannel]> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const [near, far] = await Promise.all([Deno.connect({ port: listener.addr.port }), listener.accept()]);
  return [new FrameChannel(near), new FrameChannel(far)];
}

Deno.test("a guest that takes no input gets a window of it, and the rest as it takes that", async () => {
  const [host, guest] = await channels();
  const sent: HostMessage[] = [];
  const programs = new Programs({
    send: (message) => Promise.resolve(void sent.push(message)),
    lost: new Promise(() => {}),
    newId: () => "a".repeat(32),
  });
  const bytes = new Uint8Array(3 * INPUT_WINDOW).fill(7);
  const pieces = [bytes.toBase64(), null];
  const output: string[] = [];
  const run = programs.run({ argv: ["x"], stdin: true }, {
    input: () => Promise.resolve(pieces.shift() ?? null),
    output: (_, data) => Promise.resolve(void output.push(atob(data))),
  });
  const served = programs.serve(host);
  await guest.send({ t: "ExecStarted", id: "a".repeat(32) });
  let received = 0;
  let largest = 0;
  const next = async () => {
    const { data = "" } = await guest.next() as ExecInput & { data?: string };
    const length = Uint8Array.fromBase64(data).length;
    received += length;
    largest = Math.max(largest, length);
    return length;
  };
  while (received < INPUT_WINDOW) await next();
  // What it writes meanwhile is read.
  await guest.send({ stream: "stdout", data: btoa("still here") });
  while (output.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  assert(received < INPUT_WINDOW + INPUT_PIECE);
  for (let untaken = received; received < bytes.length; untaken = await next()) {
    await guest.send({ stream: "stdin", taken: Math.min(untaken, INPUT_WINDOW) });
  }
  assertEquals([received, largest], [bytes.length, INPUT_PIECE]);
  await guest.send({ stream: "stdout", end: true });
  programs.finish({ t: "ExecExited", id: "a".repeat(32), exit_code: 0, truncated: false, duration_ms: 1 });
  assertEquals([(await run).exit_code, output], [0, ["still here"]]);
  await served;
  for (const channel of [host, guest]) channel.close();
});
