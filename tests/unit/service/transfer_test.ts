/** Files of a hostile guest that are taken onto the host: none keeps the service busy without end. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CallServer } from "../../../lib/session/ipc/mod.ts";
import { VmFiles } from "../../../lib/service/run/transfer.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";

/** `bytes` of a hole that takes hours to read. */
const ENDLESS = 2 ** 42;

const ready = () => Promise.resolve();
const records = { decide: () => Promise.resolve({ event_id: "e" }) };

async function withVm(run: (vm: Vm, workspace: string) => Promise<void>, process?: VmProcess): Promise<void> {
  const dir = await Deno.makeTempDir();
  const workspace = join(dir, "workspace");
  await Deno.mkdir(workspace);
  const state = { state: process ? "Running" : "Stopped" };
  const vm = {
    paths: { dir, workspace, brought: join(dir, "brought") },
    state,
    record: { name: "demo" },
    process,
  };
  try {
    await run(vm as unknown as Vm, workspace);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a file with a hole without end is refused as a bundle, and given up when its client goes away", () =>
  withVm(async (vm, workspace) => {
    await Deno.writeTextFile(join(workspace, "f"), "");
    await Deno.truncate(join(workspace, "f"), ENDLESS);
    const files = new VmFiles({ ready, records }, vm, { client: "test" });
    const { code } = await assertRejects(() => files.open("f", 1024), SbxError);
    assertEquals(code, "repo.too_large");
    const gone = new AbortController();
    const opened = new VmFiles({ ready, records }, vm, { client: "test" }, gone.signal).open("f");
    gone.abort();
    await assertRejects(() => opened, DOMException);
  }));

Deno.test("an agent that answers nothing is given up when the client goes away", async () => {
  const socket = join(await Deno.makeTempDir(), "vm.sock");
  const asked = Promise.withResolvers<void>();
  const server = new CallServer(Deno.listen({ transport: "unix", path: socket }), async (_call, caller) => {
    asked.resolve();
    await caller.input();
  });
  await withVm(async (vm) => {
    const gone = new AbortController();
    const opened = new VmFiles({ ready, records }, vm, { client: "test" }, gone.signal).open("/root/f");
    await asked.promise;
    gone.abort();
    await assertRejects(() => opened);
  }, new VmProcess(socket));
  await server.close();
});
