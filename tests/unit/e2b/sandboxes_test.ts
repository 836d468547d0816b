/** Sandboxes whose boot, end or pause goes wrong: none is left running without an end. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { Sandboxes, type SandboxRequest } from "../../../cmd/sbx/e2b/sandboxes.ts";
import { newId, newToken, type Sandbox, Store } from "../../../cmd/sbx/e2b/store.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Client } from "../../../lib/client/mod.ts";

const VM = "11111111-1111-4111-8111-111111111111";
const REQUEST: SandboxRequest = {
  ...{ template: "base", timeout: 60, metadata: {}, env: {} },
  ...{ on_timeout: "kill", auto_resume: false, allows_internet: true },
};

/** Answers of the service's API, whose VM boots and fails when the test wants it. */
interface Served {
  path: string;
  sandboxes: Sandboxes;
  /** calls so far, as `METHOD path` */
  calls: string[];
  status: { status: string } | { error: string };
  /** value of app.e2b */
  isOn: boolean;
}

async function withService(work: (served: Served) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-e2b-" });
  const calls: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, ({ method, url }) => {
    const { pathname } = new URL(url);
    if (pathname === "/settings/explain/app.e2b") return Response.json({ effective_value: served.isOn });
    calls.push(`${method} ${pathname}`);
    if (pathname === "/vms/list") return Response.json({ vms: [{ id: VM }] });
    if (pathname === "/vms/create") return Response.json({ id: VM });
    const { status } = served;
    if (!("error" in status)) return Response.json(status);
    return Response.json({ code: status.error, error: "failed" }, { status: 404 });
  });
  using http = Deno.createHttpClient({});
  const path = join(dir, "e2b.json");
  const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
  const sandboxes = new Sandboxes(client, await Store.open(path), new Map());
  const served: Served = { path, sandboxes, calls, status: { status: "Booting" }, isOn: true };
  try {
    await work(served);
  } finally {
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
}

/** Waits until a call has come so many times. */
async function called(calls: string[], call: string, times = 1): Promise<void> {
  while (calls.filter((each) => each === call).length < times) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const over = (more: Partial<Sandbox>): Sandbox => ({
  ...{ id: newId(), vm: VM, template: "base", token: newToken(), metadata: {}, started_at: 0, ends_at: 0 },
  ...{ on_timeout: "kill", auto_resume: false, allows_internet: true, is_paused: false, ...more },
});

Deno.test("a server that ends while a sandbox boots knows it at its next start, and ends it", () =>
  withService(async (served) => {
    const { path, sandboxes, calls } = served;
    const made = sandboxes.create(REQUEST);
    const failure = assertRejects(() => made, SbxError);
    await called(calls, `GET /vms/${VM}/status`);
    const [left] = (await Store.open(path)).all();
    assertEquals(left?.vm, VM);
    served.status = { error: "vm.not_found" };
    await failure;
    assertEquals((await Store.open(path)).all().length, 0);
  }));

Deno.test("a sandbox that a client ends while it boots does not come back", () =>
  withService(async (served) => {
    const { path, sandboxes, calls } = served;
    const made = sandboxes.create(REQUEST);
    const failure = assertRejects(() => made, SbxError);
    await called(calls, `GET /vms/${VM}/status`);
    await sandboxes.kill(sandboxes.store.all()[0]);
    served.status = { status: "Running" };
    assertEquals((await failure as SbxError).code, "sandbox.not_found");
    assertEquals(sandboxes.store.all(), []);
    assertEquals((await Store.open(path)).all().length, 0);
  }));

Deno.test("a sandbox without its VM is forgotten when its time is over, and a failure is not repeated at once", () =>
  withService(async (served) => {
    const { sandboxes, calls } = served;
    served.status = { error: "vm.not_found" };
    await sandboxes.store.put(over({ on_timeout: "pause" }));
    await sandboxes.expire();
    assertEquals(sandboxes.store.all(), []);
    served.status = { error: "vm.busy" };
    await sandboxes.store.put(over({ on_timeout: "kill" }));
    const before = calls.length;
    for (let at = 0; at < 10; at++) await sandboxes.expire(1000 + at);
    assertEquals(calls.length - before, 1);
    await sandboxes.expire(100_000);
    assertEquals(calls.length - before, 2);
  }));

Deno.test("a state that is full refuses the next sandbox, and goes on without it", () =>
  withService(async ({ path, sandboxes: { store } }) => {
    const metadata = { a: "x".repeat(9 * 1024 * 1024) };
    const [first, second] = [over({ metadata }), over({ metadata })];
    await store.put(first);
    assertEquals((await assertRejects(() => store.put(second), SbxError)).code, "e2b.too_many");
    assertEquals(store.all().length, 1);
    await store.put({ ...first, ends_at: 5 });
    assertEquals((await Store.open(path)).all().map(({ ends_at }) => ends_at), [5]);
    await store.remove(first.id);
    assertEquals((await Store.open(path)).all().length, 0);
  }));

Deno.test("a setting that is switched off while the server runs ends what it makes", () =>
  withService(async (served) => {
    served.isOn = false;
    for (
      const make of [() => served.sandboxes.create(REQUEST), () => served.sandboxes.fork(over({}), 1, 60)]
    ) {
      assertEquals((await assertRejects(make, SbxError)).code, "e2b.off");
    }
    assertEquals(served.calls, []);
  }));

Deno.test("requests that come at once wake a paused sandbox once, and a snapshot takes no template's name", () =>
  withService(async (served) => {
    const { sandboxes, calls } = served;
    served.status = { status: "Suspended" };
    const paused = over({ is_paused: true, auto_resume: true });
    await sandboxes.store.put(paused);
    const awake = await Promise.all(Array.from({ length: 5 }, () => sandboxes.awake(paused)));
    assertEquals(awake.map(({ is_paused }) => is_paused), [false, false, false, false, false]);
    assertEquals(calls.filter((call) => call.endsWith("/resume")).length, 1);
    const failure = await assertRejects(() => sandboxes.snapshot(paused, "base"), SbxError);
    assertEquals([failure.code, calls.some((call) => call.endsWith("/fork"))], ["request.invalid", false]);
  }));

Deno.test("a program that makes sandboxes in a loop is refused, also while they boot; deleted VMs leave room", () =>
  withService(async (served) => {
    const { sandboxes, calls } = served;
    served.status = { status: "Running" };
    const lost = over({ vm: crypto.randomUUID(), is_paused: true });
    await sandboxes.store.put(lost);
    const made = await Promise.allSettled(Array.from({ length: 300 }, () => sandboxes.create(REQUEST)));
    const refused = made.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    assertEquals(new Set(refused.map(({ reason }) => reason.code)), new Set(["e2b.too_many"]));
    assertEquals(calls.filter((call) => call === "POST /vms/create").length, 256);
    assertEquals([sandboxes.store.all().length, sandboxes.store.get(lost.id)], [256, undefined]);
    const [first] = sandboxes.store.all();
    assertEquals((await assertRejects(() => sandboxes.fork(first, 1, 60), SbxError)).code, "e2b.too_many");
    await sandboxes.kill(first);
    await sandboxes.create(REQUEST);
  }));
