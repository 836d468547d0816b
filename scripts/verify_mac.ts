/** The checks of scripts/verify-mac.sh that call the library itself: `verify_mac.ts abilities|floor|life|saved`. */
import { assert, assertEquals } from "@std/assert";
import { library, refused, until, World } from "../tests/swift/world.ts";

const { console: device, features, lacks } = library.abilities;
const BOOT = `console=${device} panic=-1 sbx_hvc=1 sbx_poweroff=1`;

const CHECKS: Record<string, () => Promise<void>> = {
  // deno-lint-ignore require-await -- all checks have one type
  async abilities() {
    assert(features.pause && features.shared_folder);
    console.log(JSON.stringify({ features, lacks }));
  },

  async floor() {
    await using world = await World.make({ command_line: `${BOOT} sbx_floor=1` });
    await world.create().start();
    const events = await world.ended;
    assertEquals(events.map(({ state }) => state), ["starting", "running", "stopped"]);
  },

  async life() {
    await using world = await World.make({ command_line: BOOT, ports: [5000] });
    const vm = world.create();
    await vm.start();
    await vm.pause();
    await refused(vm.pause(), "state.invalid");
    await vm.resume();
    await vm.stop();
    assertEquals((await world.ended).at(-1)?.state, "stopped");
    await vm.free();
    await refused(vm.free(), "handle.invalid");
    for (let delay = 0; delay < 100; delay += 20) {
      await using other = await World.make({ command_line: BOOT, ports: [5000] });
      const started = other.create();
      const start = started.start().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, delay));
      await started.stop();
      await start;
    }
  },

  async saved() {
    const folder = await Deno.makeTempDir();
    try {
      {
        await using world = await World.make({ command_line: BOOT });
        const vm = world.create();
        await vm.start();
        await until(() => world.consoleText.includes("Run /init"), "the guest's init");
        await vm.pause();
        await vm.save(folder);
      }
      await using world = await World.make({ command_line: BOOT });
      const vm = world.create();
      await vm.restore(folder);
      await vm.resume();
      // It goes on to wait for a disk that is not there, and ends.
      assertEquals((await world.ended).at(-1)?.state, "stopped");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
};

const check = CHECKS[Deno.args[0]];
if (!check) {
  console.error(`verify_mac: one of ${Object.keys(CHECKS).join(", ")}`);
  Deno.exit(2);
}
await check();
// The library's threads would keep the program.
Deno.exit(0);
