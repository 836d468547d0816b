/** Requests that come twice by their idempotency key, and waits for events. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { AskedOnce, Notices, waitForEvents } from "../../../lib/service/mod.ts";
import { READ_APART_MS } from "../../../lib/service/record/waiting.ts";
import { recordOf } from "../../helper/vm.ts";

type Made = Awaited<ReturnType<AskedOnce["make"]>>;

function vmsOf(key: string, digest: string): Made {
  return [{
    record: { ...recordOf("00000000-0000-4000-8000-000000000001", "a"), asked: { key, digest } },
  }] as Made;
}

Deno.test("a repeated request gets the VMs of the first: under way, and as long as they are there", async () => {
  const all: Made = [];
  const once = new AskedOnce(() => all);
  const started = Promise.withResolvers<Made>();
  let made = 0;
  const make = async () => {
    made++;
    return await started.promise;
  };
  const both = [once.make({ key: "k", digest: "d" }, make), once.make({ key: "k", digest: "d" }, make)];
  const vms = vmsOf("k", "d");
  all.push(...vms);
  started.resolve(vms);
  assertEquals((await Promise.all(both)).map(([vm]) => vm.record.name), ["a", "a"]);
  // As after a restart: only the records know.
  const again = new AskedOnce(() => all);
  assertEquals(await again.make({ key: "k", digest: "d" }, make), vms);
  assertEquals(made, 1);
});

Deno.test("a key of another request is refused; without a key, and after a failure, VMs are made", async () => {
  const once = new AskedOnce(() => vmsOf("k", "d"));
  const refused = await assertRejects(
    () => once.make({ key: "k", digest: "other" }, () => Promise.resolve([])),
    SbxError,
  );
  assertEquals(refused.code, "request.key_reused");
  assertEquals(await once.make(undefined, () => Promise.resolve([])), []);
  const failing = new AskedOnce(() => []);
  await assertRejects(() => failing.make({ key: "k", digest: "d" }, () => Promise.reject(new Error("full"))));
  assertEquals(
    (await failing.make({ key: "k", digest: "d" }, () => Promise.resolve(vmsOf("k", "d")))).length,
    1,
  );
});

Deno.test("a request that waits has left when each of its clients has; then it is made again", async () => {
  const once = new AskedOnce(() => []);
  const asked = { key: "k", digest: "d" };
  const [first, second, third] = [1, 2, 3].map(() => new AbortController());
  const made = vmsOf("k", "d");
  const make = (gone?: AbortSignal) =>
    new Promise<Made>((_, reject) => gone!.addEventListener("abort", () => reject(new Error("left"))));
  const both = [once.make(asked, make, first.signal), once.make(asked, make, second.signal)]
    .map((making) => making.catch(({ message }: Error) => message));
  let hasLeft = false;
  both[1].then(() => hasLeft = true);
  first.abort();
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(hasLeft, false, "the second client waits on");
  second.abort();
  const late = once.make(asked, () => Promise.resolve(made), third.signal);
  assertEquals(await Promise.all(both), ["left", "left"]);
  assertEquals(await late, made);
  const past = Promise.withResolvers<Made>();
  const going = once.make(asked, () => past.promise, AbortSignal.abort());
  const again = once.make(asked, () => Promise.reject(new Error("made twice")), third.signal);
  past.resolve(made);
  assertEquals([await going, await again], [made, made], "past the wait, it is made once");
});

Deno.test("a wait for events ends with the first one, with its time, and with its client", async () => {
  const notices = new Notices();
  const events: { id: string }[] = [];
  const read = () => Promise.resolve({ events } as never);
  const gone = new AbortController();
  const waiting = waitForEvents(notices, read, 60_000, gone.signal);
  events.push({ id: "e" });
  notices.publish({ type: "security-event", payload: {} } as never);
  assertEquals((await waiting).events.length, 1);
  const empty = () => Promise.resolve({ events: [] });
  assertEquals(await waitForEvents(notices, empty, 1, gone.signal), { events: [] });
  const left = waitForEvents(notices, empty, 60_000, gone.signal);
  gone.abort();
  assertEquals(await left, { events: [] });
});

Deno.test("a guest that makes events without end has a wait read at a bounded rate", async () => {
  const notices = new Notices();
  let reads = 0;
  const read = () => {
    reads++;
    notices.publish({ type: "security-event", payload: {} } as never);
    return Promise.resolve({ events: [] });
  };
  const ms = 4 * READ_APART_MS;
  await waitForEvents(notices, read, ms, new AbortController().signal);
  assert(reads <= ms / READ_APART_MS + 2, `${reads} reads`);
});
