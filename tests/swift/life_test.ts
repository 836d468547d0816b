/** The life of machines and handles, on many threads. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { LibraryError } from "../../ffi/SbxVM/binding.ts";
import { library, refused, until, World } from "./world.ts";

/** The guest's init powers off at once. */
const FLOOR = { command_line: "console=hvc0 panic=-1 sbx_floor=1 sbx_poweroff=1" };

Deno.test("a machine from start to its own end, and a handle after its end", async () => {
  await using world = await World.make(FLOOR);
  const vm = world.create();
  assertStringIncludes(await refused(vm.pause(), "state.invalid"), "created");
  await refused(vm.resume(), "state.invalid");
  await refused(vm.listen(5000), "state.invalid");
  await vm.start();
  await refused(vm.start(), "state.invalid");
  const events = await world.ended;
  assertEquals(events.map(({ state }) => state), ["starting", "running", "stopped"]);
  assertEquals(events.at(-1), { state: "stopped", code: 0 });
  await refused(vm.start(), "machine.ended");
  await refused(vm.pause(), "machine.ended");
  await vm.stop();
  await vm.free();
  await refused(vm.free(), "handle.invalid");
  const calls = [vm.start(), vm.stop(), vm.pause(), vm.save("/tmp"), vm.connect(1, "/s"), vm.listen(1)];
  await Promise.all(calls.map((call) => refused(call, "handle.invalid")));
});

Deno.test("a machine that cannot start says why, and has ended", async () => {
  await using world = await World.make({ kernel: "/no/such/kernel" });
  const vm = world.create();
  const error: LibraryError = await vm.start().catch((error) => error);
  assert(["hypervisor.failed", "machine.ended"].includes(error.code), `${error}`);
  assertEquals((await world.ended).at(-1)?.state, "stopped");
  await refused(vm.start(), "machine.ended");
});

Deno.test("a machine without anybody who listens does not start", async () => {
  await using world = await World.make({ events: "/no/such/socket" });
  assertStringIncludes(await refused(world.create().start(), "socket.failed"), "/no/such/socket");
  const long = `/${"x".repeat(200)}`;
  await using other = await World.make({ console: long });
  assertStringIncludes(await refused(other.create().start(), "socket.failed"), "longer than");
});

Deno.test("pause, resume and stop; a paused machine can be stopped", async () => {
  await using world = await World.make();
  const vm = world.create();
  await vm.start();
  await vm.pause();
  await refused(vm.pause(), "state.invalid");
  await vm.resume();
  await refused(vm.resume(), "state.invalid");
  await vm.pause();
  await vm.stop();
  const states = (await world.ended).map(({ state }) => state);
  const [pausing, resuming] = [["pausing", "paused"], ["resuming", "running"]];
  assertEquals(states, ["starting", "running", ...pausing, ...resuming, ...pausing, "stopping", "stopped"]);
});

Deno.test("a stop at any moment of a start: every call returns, and the last event is the end", async () => {
  for (let delay = 0; delay < 200; delay += 10) {
    await using world = await World.make({ ports: [5000] });
    const vm = world.create();
    const start = vm.start().then(() => "started", ({ code }: LibraryError) => code);
    await new Promise((resolve) => setTimeout(resolve, delay));
    await vm.stop();
    assert(["started", "machine.ended"].includes(await start), `${delay} ms: ${await start}`);
    if (world.states.length > 0) {
      assertEquals(
        (await world.ended).map(({ state }) => state).filter((state) => state === "stopped").length,
        1,
      );
      assertEquals(world.states.at(-1)?.state, "stopped");
    }
  }
});

Deno.test("calls on many threads at once: each returns once, and one of many frees the handle", async () => {
  for (let round = 0; round < 5; round++) {
    await using world = await World.make();
    const vm = world.create();
    await vm.start();
    const calls = Array.from({ length: 60 }, (_, at) => [vm.pause, vm.resume, vm.stop][at % 3].call(vm));
    const frees = Array.from({ length: 10 }, () => vm.free());
    const results = await Promise.allSettled([...calls, ...frees]);
    const codes = results.flatMap((result) => result.status === "rejected" ? [result.reason.code] : []);
    const unexpected = codes.filter((code) =>
      !["state.invalid", "machine.ended", "handle.invalid"].includes(code)
    );
    assertEquals(unexpected, []);
    assertEquals(results.slice(60).filter(({ status }) => status === "fulfilled").length, 1);
    assertEquals((await world.ended).at(-1)?.state, "stopped");
  }
});

Deno.test("10,000 handles, each freed twice at once: one of the two is refused, and nothing of them stays", async () => {
  await using world = await World.make();
  const [descriptors, threads] = [await count("fd"), await count("task")];
  const { rss } = Deno.memoryUsage();
  const seen = new Set<bigint>();
  for (let batch = 0; batch < 100; batch++) {
    const machines = Array.from({ length: 100 }, () => library.create(world.spec));
    machines.forEach(({ id }) => seen.add(id));
    const results = await Promise.allSettled(machines.flatMap((vm) => [vm.free(), vm.free()]));
    assertEquals(results.filter(({ status }) => status === "fulfilled").length, 100);
  }
  assertEquals(seen.size, 10_000);
  await until(async () => await count("fd") <= descriptors + 8, "closing every descriptor");
  assert(await count("task") < threads + 200, "threads end");
  const grown = Deno.memoryUsage().rss - rss;
  // The sanitizer keeps freed memory for a while.
  const limit = Deno.env.has("ASAN_OPTIONS") ? 1024 : 128;
  assert(grown < limit * 1024 * 1024, `${grown} bytes more`);
});

Deno.test("the sanitizer is there when it is asked for", async () => {
  const maps = await Deno.readTextFile("/proc/self/maps");
  assertEquals(maps.includes("libclang_rt.asan"), Deno.env.has("ASAN_OPTIONS"));
});

/** Entries of a folder of this process. */
async function count(folder: "fd" | "task"): Promise<number> {
  return (await Array.fromAsync(Deno.readDir(`/proc/self/${folder}`))).length;
}
