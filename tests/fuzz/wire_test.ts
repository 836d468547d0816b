import { assert } from "@std/assert";
import { encodeFrame, FrameError, FrameReader } from "../../lib/base/wire/mod.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 3000;

Deno.test("random and damaged bytes never make the frame reader hang, crash or misread earlier frames", async () => {
  const random = new Random(20260101);
  for (let round = 0; round < ROUNDS; round++) {
    const messages = Array.from(
      { length: random.below(4) },
      (_, i) => ({ i, text: "y".repeat(random.below(300)) }),
    );
    const bytes = new Uint8Array([
      ...messages.flatMap((message) => [...encodeFrame(message)]),
      ...random.bytes(random.below(64)),
    ]);
    let at = 0;
    const reader = new FrameReader({
      read(into) {
        if (at === bytes.length) return Promise.resolve(null);
        const count = Math.min(1 + random.below(50), into.length, bytes.length - at);
        into.set(bytes.subarray(at, at += count));
        return Promise.resolve(count);
      },
    }, 4096);
    const received: unknown[] = [];
    try {
      for await (const message of reader) received.push(message);
    } catch (error) {
      assert(error instanceof FrameError, `${error}`);
    }
    for (const [i, message] of messages.entries()) {
      assert(JSON.stringify(received[i]) === JSON.stringify(message));
    }
  }
});
