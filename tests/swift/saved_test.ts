/** Machines that are saved and restored through the library. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { refused, until, World } from "./world.ts";

/** What init says ten seconds after it began to wait for a disk that is not there. */
const LAST_WORDS = "the root disk did not appear";
const FIRST_WORDS = "Linux version";

Deno.test("a machine goes on from its folder where it was saved, in another machine", async () => {
  const folder = await Deno.makeTempDir();
  {
    await using world = await World.make();
    const vm = world.create();
    await vm.start();
    await until(() => world.consoleText.includes("Run /init"), "the guest's init");
    await refused(vm.save(folder), "state.invalid");
    await vm.pause();
    await vm.save(folder);
    assert(!world.consoleText.includes(LAST_WORDS));
  }
  await using world = await World.make();
  const vm = world.create();
  await vm.restore(folder);
  await until(() => world.states.at(-1)?.state === "paused", "the event");
  await refused(vm.start(), "state.invalid");
  await vm.resume();
  const events = await world.ended;
  assertEquals(events.at(-1), { state: "stopped", code: 0 });
  assertStringIncludes(world.consoleText, LAST_WORDS);
  assert(!world.consoleText.includes(FIRST_WORDS), "it did not boot again");
  await Deno.remove(folder, { recursive: true });
});

Deno.test("a folder without a machine, and a damaged one, start nothing", async () => {
  const folder = await Deno.makeTempDir();
  await using empty = await World.make();
  assertStringIncludes(await refused(empty.create().restore(folder), "image.invalid"), "is missing");
  await Deno.writeFile(`${folder}/state`, crypto.getRandomValues(new Uint8Array(65536)));
  await using damaged = await World.make();
  const error = await damaged.create().restore(folder).then(() => undefined, (error) => error);
  assert(["image.invalid", "machine.ended"].includes(error?.code), `${error}`);
  assertEquals((await damaged.ended).at(-1)?.state, "stopped");
  await Deno.remove(folder, { recursive: true });
});

Deno.test("QEMU's vsock cannot be saved: that is refused, and the machine goes on", async () => {
  await using world = await World.make({ ports: [5000] });
  const vm = world.create();
  await vm.start();
  await vm.pause();
  await refused(vm.save(world.dir), "feature.missing");
  await vm.resume();
  await until(() => world.states.at(-1)?.state === "running", "the event");
});
