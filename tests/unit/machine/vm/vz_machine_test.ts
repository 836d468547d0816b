/**
 * A machine of the library whose guest has a vsock that stays: what is said on its
 * console when it is written down.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { LibraryError, type VmHandle } from "../../../../ffi/SbxVM/binding.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { MachineSpec } from "../../../../lib/machine/vm/mod.ts";
import { COME_BACK, VSOCK_LEFT } from "../../../../lib/machine/vm/schema.ts";
import { VzMachine } from "../../../../lib/machine/vm/vz_machine.ts";
import { eventually } from "../../../helper/sbx.ts";

/** A guest on the other side of the library: it writes to the console, and hears what the host says there. */
class Guest {
  readonly calls: string[] = [];
  heard = "";
  saving = () => Promise.resolve();
  #console: Deno.Conn | undefined;
  #events: Deno.Conn | undefined;

  constructor(readonly dir: string) {}

  async connect(): Promise<void> {
    [this.#events, this.#console] = await Promise.all(
      ["events", "console"].map((name) => Deno.connect({ transport: "unix", path: join(this.dir, name) })),
    );
    this.#hear(this.#console);
  }

  say(text: string): Promise<number> {
    return this.#console!.write(new TextEncoder().encode(text));
  }

  get handle(): VmHandle {
    const call = (name: string, act = () => Promise.resolve()) => async () => {
      this.calls.push(name);
      await act();
    };
    const free = call("free", () => {
      this.#events?.close();
      this.#console?.close();
      this.#events = this.#console = undefined;
      return Promise.resolve();
    });
    const calls = {
      start: call("start", () => this.connect()),
      pause: call("pause"),
      resume: call("resume"),
      free,
    };
    return { ...calls, save: call("save", () => this.saving()) } as unknown as VmHandle;
  }

  async #hear(conn: Deno.Conn): Promise<void> {
    const buffer = new Uint8Array(256);
    const next = () => conn.read(buffer).catch(() => null);
    for (let count = await next(); count !== null; count = await next()) {
      this.heard += new TextDecoder().decode(buffer.subarray(0, count));
    }
  }
}

async function withMachine(
  work: (guest: Guest, machine: VzMachine) => Promise<void>,
  isStarted = true,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const guest = new Guest(dir);
  const [events, console] = ["events", "console"].map((name) =>
    Deno.listen({ transport: "unix", path: join(dir, name) })
  );
  const spec = { onConsole() {}, ramMb: 1 } as unknown as MachineSpec;
  const machine = new VzMachine({ handle: guest.handle, events, console, spec });
  try {
    if (isStarted) await machine.begin((handle) => handle.start(), "vm.boot_failed");
    await work(guest, machine);
  } finally {
    await machine.kill();
    await Deno.remove(dir, { recursive: true });
  }
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 20));

Deno.test("a machine is paused and saved once its guest has let go of its vsock, however the line arrives", () =>
  withMachine(async (guest, machine) => {
    let isDone = false;
    const saved = machine.snapshot({ dir: "/image" }, async () => {
      guest.calls.push("eject");
      await guest.say(`boot\n${VSOCK_LEFT.slice(0, 7)}`);
    }).then(() => isDone = true);
    await tick();
    assertEquals([guest.calls.at(-1), isDone], ["eject", false]);
    await guest.say(`${VSOCK_LEFT.slice(7)}\n`);
    await saved;
    assertEquals(guest.calls, ["start", "eject", "pause", "save"]);
    assertEquals(guest.heard, "");
    await machine.rejoin();
    await eventually("the guest hears of it", () => guest.heard !== "");
    assertEquals([guest.calls.at(-1), guest.heard], ["resume", `${COME_BACK}\n`]);
    await machine.rejoin();
    await tick();
    assertEquals([guest.calls.length, guest.heard], [5, `${COME_BACK}\n`], "it is said once");
  }));

Deno.test("a machine that cannot be saved goes on, and its guest comes back", () =>
  withMachine(async (guest, machine) => {
    guest.saving = () => Promise.reject(new LibraryError("feature.missing", "not such machines"));
    const left = () => guest.say(`\n${VSOCK_LEFT}\n`).then(() => {});
    const error = await assertRejects(
      () => machine.snapshot({ dir: "/image" }, left),
      SbxError,
      "not such machines",
    );
    assertEquals(error.code, "vm.not_supported");
    await machine.rejoin();
    await eventually("the guest hears of it", () => guest.heard !== "");
    assertEquals([guest.calls, guest.heard], [["start", "pause", "save", "resume"], `${COME_BACK}\n`]);
  }));

Deno.test("a machine that was restored is resumed, and its guest told", () =>
  withMachine(async (guest, machine) => {
    await machine.comeBack();
    await eventually("the guest hears of it", () => guest.heard !== "");
    assertEquals([guest.calls, guest.heard], [["start", "resume"], `${COME_BACK}\n`]);
  }));

Deno.test("a machine that ends while it starts could not be started, and is over", () =>
  withMachine(async (_, machine) => {
    const end = () => Promise.reject(new LibraryError("machine.ended", "it has ended"));
    const error = await assertRejects(
      () => machine.begin(end, "vm.image_failed", "not from memory"),
      SbxError,
    );
    assertEquals([error.code, error.message], ["vm.image_failed", "not from memory: it has ended"]);
    assertEquals((await machine.exited).code, 1);
  }, false));
