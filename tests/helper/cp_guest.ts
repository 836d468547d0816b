/**
 * A hostile guest behind the service's file routes, without a VM: its agent's code runs
 * here, or its answers are a test's.
 */
import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { FileAction } from "../../cmd/guest/pty_agent/guest_file.ts";
import { Remote } from "../../cmd/sbx/files/cp_remote.ts";
import { routeFiles } from "../../cmd/service/routes/files.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { Client } from "../../lib/client/mod.ts";
import { type Call, type Caller, CallServer } from "../../lib/session/ipc/mod.ts";
import { byProcess } from "../../lib/service/record/host_record.ts";
import type { Service, Vm } from "../../lib/service/mod.ts";
import { VmProcess } from "../../lib/service/vm/vm_process.ts";

type GuestFile = Extract<Call, { t: "GuestFile" }>;
type Decision = Extract<Call, { t: "DecideFile" }>;

export interface CpFixture {
  /** folders of the person and of the guest, whose / is this machine's */
  local: string;
  guest: string;
  remote: Remote;
  decisions: Decision[];
  state: { state: Vm["state"]["state"] };
  /** why files are refused */
  refusal?: string;
  /** answers of a guest that lies, by the action */
  lies: Record<string, string>;
}

/** Runs an action as sbx-process does: by the agent's code. */
async function act({ words, limit, stdin }: GuestFile, caller: Caller): Promise<void> {
  const action = new FileAction(words);
  const feed = async () => {
    for (let input = await caller.input(); input?.t === "Data"; input = await caller.input()) {
      await action.stdin.write(Uint8Array.fromBase64(input.data));
    }
    action.stdin.close();
  };
  if (stdin) feed();
  let left = limit;
  const pump = async (stream: "stdout" | "stderr") => {
    const chunk = new Uint8Array(64 * 1024);
    for (
      let read = await action[stream].read(chunk);
      read !== null;
      read = await action[stream].read(chunk)
    ) {
      const part = chunk.subarray(0, Math.min(read, left));
      if (stream === "stdout") left -= part.length;
      await caller.reply({ t: "Output", stream, data: part.toBase64() });
    }
  };
  const [{ code }] = await Promise.all([action.status, pump("stdout"), pump("stderr")]);
  await caller.reply({ t: "FileDone", exit_code: code, truncated: left === 0 });
}

/** Runs a test with a guest and the folders of a person. */
export async function withGuest(run: (fixture: CpFixture) => Promise<void>): Promise<void> {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const paths = {
    dir: join(dir, "vm"),
    workspace: join(dir, "vm/workspace"),
    brought: join(dir, "vm/brought"),
  };
  const fixture = {
    local: join(dir, "local"),
    guest: join(dir, "guest"),
    decisions: [] as Decision[],
    state: { state: "Running" },
    lies: {},
  } as unknown as CpFixture;
  for (const folder of [fixture.local, fixture.guest, paths.workspace]) {
    await Deno.mkdir(folder, { recursive: true });
  }
  const socket = join(dir, "vm.sock");
  const process = new CallServer(Deno.listen({ transport: "unix", path: socket }), async (call, caller) => {
    if (call.t === "DecideFile") {
      fixture.decisions.push(call);
      return await caller.reply({
        t: "FileDecided",
        event_id: "0123456789ab",
        ...(fixture.refusal && { refusal: fixture.refusal }),
      });
    }
    if (call.t === "AwaitFile") return await caller.reply({ t: "Ok" });
    const { words } = call as GuestFile;
    const lie = fixture.lies[words[0]];
    if (lie === undefined) return await act(call as GuestFile, caller);
    await caller.reply({ t: "Output", stream: "stdout", data: new TextEncoder().encode(lie).toBase64() });
    await caller.reply({ t: "FileDone", exit_code: 0, truncated: false });
  });
  const vm = {
    paths,
    state: fixture.state,
    record: { id: crypto.randomUUID(), name: "demo" },
    process: new VmProcess(socket),
  } as unknown as Vm;
  const app = new Hono();
  const supervisor = {
    find: () => vm,
    ready: () => {
      if (fixture.state.state === "Running") return Promise.resolve();
      return Promise.reject(new SbxError("vm.wrong_state", "it is Stopped"));
    },
  };
  const place = home({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
  routeFiles(app, { home: place, supervisor, records: byProcess } as unknown as Service);
  app.get("/vms/demo/info", (context) => context.json({ workspace: paths.workspace }));
  app.onError((cause, context) => {
    const error = asSbxError(cause, context.req.path);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, app.fetch);
  fixture.remote = new Remote(
    new Client(`http://127.0.0.1:${server.addr.port}`, undefined, Deno.createHttpClient({})),
    "demo",
  );
  try {
    await run(fixture);
    const names = (dir: string) => Array.from(Deno.readDirSync(dir), ({ name }) => name);
    const found = names(paths.dir);
    assertEquals(found.filter((name) => name !== "brought"), ["workspace"], "no copy of a file is left");
    const kept = found.includes("brought") ? names(paths.brought) : [];
    assertEquals(kept.filter((name) => !/^[0-9a-f]{64}$/.test(name)), [], "copies for trials are whole");
  } finally {
    await server.shutdown();
    await process.close();
    await Deno.remove(dir, { recursive: true });
  }
}
