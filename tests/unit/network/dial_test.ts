/** Connection attempts that several requests wait for, by what they lead to. */
import { assertEquals, assertRejects } from "@std/assert";
import { type Dialled, SharedDials } from "../../../lib/network/upstream/pool.ts";
import type { Http2Session } from "../../../lib/network/upstream/http2/mod.ts";

/** Attempts that the test ends, and the requests that wait for them. */
class TestDials {
  readonly #dials = new SharedDials();
  /** attempts that have not ended yet */
  readonly #waiting: PromiseWithResolvers<Dialled<string>>[] = [];
  attempts = 0;

  /** @returns what the request begins on: the number of its session, or "http/1.1" */
  open(key = "a"): Promise<string> {
    return this.#dials.open<string, string>(key, () => {
      this.attempts++;
      const attempt = Promise.withResolvers<Dialled<string>>();
      this.#waiting.push(attempt);
      return attempt.promise;
    }, (dialled) => {
      if ("connection" in dialled) return dialled.connection;
      const session = dialled.session as unknown as { name: string; room: number };
      session.room--;
      return session.name;
    });
  }

  /**
   * Ends every attempt under way, and those that follow at once, each with a session for so many requests.
   */
  async end(result: { room: number } | "http/1.1" | Error): Promise<void> {
    while (this.#waiting.length > 0) {
      const attempt = this.#waiting.shift()!;
      if (result instanceof Error) attempt.reject(result);
      else if (result === "http/1.1") attempt.resolve({ connection: result });
      else {
        const session = {
          name: `session ${this.attempts}`,
          room: result.room,
          greeted: Promise.resolve(),
          get hasRoom() {
            return session.room > 0;
          },
        };
        attempt.resolve({ session: session as unknown as Http2Session });
      }
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  /** Begins so many requests at once. @returns how many attempts that takes at first */
  async burst(count: number, result: { room: number } | "http/1.1", key?: string): Promise<number> {
    const before = this.attempts;
    const requests = Array.from({ length: count }, () => this.open(key));
    const first = this.attempts - before;
    await this.end(result);
    await Promise.all(requests);
    return first;
  }
}

Deno.test("requests that come together share one attempt, and as many sessions as they need", async () => {
  const dials = new TestDials();
  const requests = Array.from({ length: 5 }, () => dials.open());
  assertEquals(dials.attempts, 1);
  await dials.end({ room: 2 });
  const names = await Promise.all(requests);
  assertEquals(Object.values(Object.groupBy(names, (name) => name)).map((all) => all!.length), [2, 2, 1]);
  assertEquals(dials.attempts, 3);
  // Another upstream has its own.
  const others = [dials.open("a"), dials.open("b")];
  assertEquals(dials.attempts, 5);
  await dials.end({ room: 1 });
  await Promise.all(others);
});

Deno.test("an upstream that chose HTTP/1.1 gets an attempt for each request, until it chooses HTTP/2", async () => {
  const dials = new TestDials();
  assertEquals(await dials.burst(3, "http/1.1"), 1);
  assertEquals(await dials.burst(3, "http/1.1"), 3);
  assertEquals(await dials.burst(3, { room: 9 }, "b"), 1);
  assertEquals(await dials.burst(3, { room: 9 }), 3);
  assertEquals(await dials.burst(3, { room: 9 }), 1);
});

Deno.test("the upstreams that chose HTTP/1.1 are forgotten when there are too many", async () => {
  const dials = new TestDials();
  for (let at = 0; at < 1024; at++) await dials.burst(1, "http/1.1", `${at}`);
  assertEquals(await dials.burst(2, "http/1.1", "0"), 2);
  await dials.burst(1, "http/1.1", "one more");
  assertEquals([await dials.burst(2, "http/1.1", "0"), await dials.burst(2, "http/1.1", "one more")], [1, 2]);
});

Deno.test("a failed attempt fails every request that waited for it, and the next one makes another", async () => {
  const dials = new TestDials();
  const requests = [dials.open(), dials.open()].map((request) =>
    assertRejects(() => request, Error, "refused")
  );
  await dials.end(new Error("refused"));
  await Promise.all(requests);
  assertEquals(dials.attempts, 1);
  assertEquals(await dials.burst(2, { room: 2 }), 1);
});
