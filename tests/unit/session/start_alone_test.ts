/** The start of a machine whose session ends meanwhile, and of one whose template fails. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { GUEST_VERSION, PORTS } from "../../../lib/machine/guest/wire/mod.ts";
import type { BootCall } from "../../../lib/session/ipc/mod.ts";
import { type StartingSession, startMachine } from "../../../lib/session/start.ts";
import { isSuspended, writeBeside } from "../../../lib/session/suspend.ts";
import { type Hypervisor, type Machine, vsockPath } from "../../../lib/machine/vm/mod.ts";
import { recordOf } from "../../helper/vm.ts";

/** A machine without a guest, which runs until it is killed. */
class IdleMachine implements Machine {
  readonly #exit = Promise.withResolvers<{ code: number; signal: string | null }>();
  readonly exited = this.#exit.promise;
  isKilled = false;
  cpuMs = () => Promise.resolve(0);
  imageBytes = () => Promise.resolve(0);
  pause = () => Promise.resolve();
  resume = () => Promise.resolve();
  snapshot = () => Promise.resolve();
  rejoin = () => Promise.resolve();
  tell = () => Promise.resolve();
  limit = () => Promise.resolve();
  copy = () => Promise.reject(new Error("not here"));
  kill(): Promise<void> {
    this.isKilled = true;
    this.#exit.resolve({ code: 0, signal: "SIGKILL" });
    return Promise.resolve();
  }
}

const NO_ASKS = { gate: { asks: { restore: () => {} } } } as unknown as Awaited<
  StartingSession["enforcement"]
>;
const RESUME = { from: "suspended", by: "resume" } as const;
const ORIGIN = { accelerator: "tcg", host: { hypervisor: "", processor: "", machine: "" } } as const;

/** A session whose machines are made by the test. */
class Starting {
  readonly dir = Deno.makeTempDirSync();
  readonly paths = { suspended: join(this.dir, "suspended"), scratch: join(this.dir, "scratch.img") };
  readonly restored = Promise.withResolvers<Machine>();
  readonly booted = Promise.withResolvers<Machine>();
  readonly bootAsked = Promise.withResolvers<void>();
  readonly handedOver: Machine[] = [];
  readonly how: unknown[] = [];
  /** how many machines were asked for */
  readonly asked = { restore: 0, start: 0 };
  isOver = false;
  #link?: GuestLink;

  /** @param start how; absent: from a template */
  run(start: BootCall["start"] = { from: "template", dir: join(this.dir, "none") }): Promise<unknown> {
    const session: StartingSession = {
      hypervisor: {
        restore: () => (this.asked.restore++, this.restored.promise),
        start: () => {
          this.asked.start++;
          this.bootAsked.resolve();
          return this.booted.promise;
        },
      } as Partial<Hypervisor> as Hypervisor,
      record: recordOf("id", "name"),
      spec: { logs: this.dir } as StartingSession["spec"],
      paths: this.paths,
      enforcement: start.from === "suspended" ? Promise.resolve(NO_ASKS) : new Promise<never>(() => {}),
      openLink: async () => {
        await this.#link?.close();
        this.#link = new GuestLink(this.dir);
        this.#link.listen();
        return this.#link;
      },
      onMachine: (machine: Machine) => this.handedOver.push(machine),
      onStarted: (started: unknown) => this.how.push(started),
      stage: () => 0,
      isOver: () => this.isOver,
    };
    return startMachine(session, start);
  }

  /** As its guest: connects, and answers what it is told. */
  async answer(): Promise<void> {
    const control = new FrameChannel(
      await Deno.connect({ transport: "unix", path: vsockPath(this.dir, PORTS.control) }),
    );
    await control.send({ t: "Ready", version: GUEST_VERSION });
    while ((await control.next() as { t: string }).t !== "BootConfigDone");
    await control.send({ t: "BootReady", stages: [] });
  }

  [Symbol.dispose](): void {
    this.#link?.close();
    Deno.removeSync(this.dir, { recursive: true });
  }
}

Deno.test("a machine that was restored after the end of its session is killed, and no other is started", async () => {
  using starting = new Starting();
  const end = assertRejects(() => starting.run());
  starting.isOver = true;
  const machine = new IdleMachine();
  starting.restored.resolve(machine);
  await end;
  assertEquals([machine.isKilled, starting.handedOver, starting.asked.start], [true, [], 0]);
});

Deno.test("a machine that boots after its template failed is killed when its session ended meanwhile", async () => {
  using starting = new Starting();
  const end = assertRejects(() => starting.run());
  starting.restored.reject(new Error("no memory"));
  await starting.bootAsked.promise;
  assertEquals(starting.asked, { restore: 1, start: 1 });
  starting.isOver = true;
  const machine = new IdleMachine();
  starting.booted.resolve(machine);
  await end;
  assertEquals([machine.isKilled, starting.handedOver], [true, []]);
});

Deno.test("a template whose guest never reports: its machine is killed before the one that boots is started", async () => {
  using starting = new Starting();
  Deno.env.set("SBX_BOOT_DEADLINE_SECS", "0.3");
  try {
    const end = assertRejects(() => starting.run(), Error, "not ready after");
    const first = new IdleMachine();
    starting.restored.resolve(first);
    await starting.bootAsked.promise;
    assertEquals(first.isKilled, true);
    assertEquals(starting.how, [{ by: "template" }, {
      by: "cold",
      why: "its template failed: its guest did not report in 0.1 seconds",
    }]);
    await end;
  } finally {
    Deno.env.delete("SBX_BOOT_DEADLINE_SECS");
  }
});

Deno.test("memory is kept until its guest has answered, and is there after a guest that never did", async () => {
  using starting = new Starting();
  const { paths, restored } = starting;
  await Deno.mkdir(paths.suspended);
  await writeBeside(paths, ORIGIN, { programs: [] });
  Deno.env.set("SBX_BOOT_DEADLINE_SECS", "0.3");
  try {
    restored.resolve(new IdleMachine());
    await assertRejects(() => starting.run(RESUME), Error, "not ready after");
    assertEquals(await isSuspended(paths), true);
  } finally {
    Deno.env.delete("SBX_BOOT_DEADLINE_SECS");
  }
  const running = starting.run(RESUME);
  while (starting.handedOver.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  assertEquals(await isSuspended(paths), true);
  await starting.answer();
  await running;
  assertEquals(await isSuspended(paths), false);
});
