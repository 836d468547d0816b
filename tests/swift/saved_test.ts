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

Deno.test("a machine with a vsock and a folder goes on after it was saved, and in another one", async () => {
  const [folder, shared] = [await Deno.makeTempDir(), await Deno.makeTempDir()];
  const devices = { ports: [5000], share: { path: shared, tag: "workspace" } };
  {
    await using world = await World.make(devices);
    const vm = world.create();
    await vm.start();
    await until(() => world.consoleText.includes("Run /init"), "the guest's init");
    await vm.pause();
    await vm.save(folder);
    await refused(vm.connect(9, `${world.dir}/v_5000`), "state.invalid");
    await vm.resume();
    await until(() => world.states.at(-1)?.state === "running", "the event");
    assertEquals((await world.ended).at(-1), { state: "stopped", code: 0 });
  }
  await using world = await World.make(devices);
  const vm = world.create();
  await vm.restore(folder);
  await vm.resume();
  assertEquals((await world.ended).at(-1), { state: "stopped", code: 0 });
  assertStringIncludes(world.consoleText, LAST_WORDS);
  await Promise.all([folder, shared].map((path) => Deno.remove(path, { recursive: true })));
});
