/** How long nobody has used a session. */
import { assertEquals } from "@std/assert";
import { Idleness, type SessionInUse } from "../../../lib/session/idleness.ts";

const MINUTE = 60_000;

/** A session whose time passes as the test wants it. */
class Idling {
  now = 0;
  cpuMs = 0;
  isInUse = false;
  isBusy = false;
  asks = 0;
  lastAt = 0;
  readonly #idleness = new Idleness(() => this.now);

  look(): Promise<number> {
    return this.#idleness.look(
      {
        link: { isInUse: this.isInUse },
        gate: {
          activity: { isBusy: this.isBusy, lastAt: this.lastAt },
          asks: { pending: () => Array(this.asks).fill({}) },
        },
        machine: { cpuMs: () => Promise.resolve(this.cpuMs) },
      } as unknown as SessionInUse,
    );
  }

  /** Time passes, in which the guest uses a part of a processor. */
  async pass(ms: number, share = 0.01): Promise<number> {
    this.now += ms;
    this.cpuMs += ms * share;
    return await this.look();
  }
}

Deno.test("a session is idle since its first look, while its guest does next to nothing", async () => {
  const session = new Idling();
  assertEquals(await session.pass(MINUTE), 0, "what was before is not known");
  assertEquals(await session.pass(MINUTE), MINUTE);
  assertEquals(await session.pass(MINUTE, 0.04), 2 * MINUTE);
});

Deno.test("a program, a request, a question, an event, and work of the guest by itself are use", async (t) => {
  const uses: Record<string, (session: Idling) => void> = {
    "a program or a terminal of the host": (session) => session.isInUse = true,
    "a request whose response has not ended": (session) => session.isBusy = true,
    "a question that nobody has answered": (session) => session.asks = 1,
    "an event of just now": (session) => session.lastAt = session.now,
    "a build that nobody waits for": (session) => session.cpuMs += MINUTE * 0.06,
  };
  for (const [name, use] of Object.entries(uses)) {
    await t.step(name, async () => {
      const session = new Idling();
      await session.look();
      await session.pass(MINUTE);
      session.now += MINUTE;
      use(session);
      assertEquals(await session.look(), 0);
    });
  }
});

Deno.test("an event between two looks is when the session was used last", async () => {
  const session = new Idling();
  await session.look();
  session.lastAt = MINUTE / 2;
  assertEquals(await session.pass(MINUTE), MINUTE / 2);
});

Deno.test("two looks in a row compare no processor time: the kernel counts in steps", async () => {
  const session = new Idling();
  await session.look();
  await session.pass(MINUTE);
  session.cpuMs += 10;
  assertEquals(await session.pass(2), MINUTE + 2);
});
