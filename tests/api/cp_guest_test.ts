/** `sbx cp` with paths outside the workspace: through the service, a VM's process and the agent's code; and a hostile guest. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { FileAction } from "../../cmd/guest/pty_agent/guest_file.ts";
import { download } from "../../cmd/sbx/cp_download.ts";
import { Remote } from "../../cmd/sbx/cp_remote.ts";
import { upload } from "../../cmd/sbx/cp_upload.ts";
import { routeFiles } from "../../cmd/service/routes/files.ts";
import { byProcess } from "../../lib/service/host_record.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { userName } from "../../lib/base/user/mod.ts";
import { Client } from "../../lib/client/mod.ts";
import { type Call, type Caller, CallServer } from "../../lib/ipc/mod.ts";
import type { Service, Vm } from "../../lib/service/mod.ts";
import { VmProcess } from "../../lib/service/vm_process.ts";

type GuestFile = Extract<Call, { t: "GuestFile" }>;
type Decision = Extract<Call, { t: "DecideFile" }>;

interface Fixture {
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

async function withGuest(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const paths = { dir: join(dir, "vm"), workspace: join(dir, "vm/workspace") };
  const fixture = {
    local: join(dir, "local"),
    guest: join(dir, "guest"),
    decisions: [] as Decision[],
    state: { state: "Running" },
    lies: {},
  } as unknown as Fixture;
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
    assertEquals(
      Array.from(Deno.readDirSync(paths.dir), ({ name }) => name),
      ["workspace"],
      "no copy of a file is left",
    );
  } finally {
    await server.shutdown();
    await process.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const code = async (work: Promise<unknown>): Promise<string> =>
  (await assertRejects(() => work, SbxError) as SbxError).code;

Deno.test("a folder goes to any path of the guest and comes back: files, modes, links, empty folders, odd names", () =>
  withGuest(async ({ local, guest, remote }) => {
    const tree = join(local, "tree");
    await Deno.mkdir(join(tree, "a b/ü"), { recursive: true });
    await Deno.mkdir(join(tree, "empty"));
    const large = new Uint8Array(3_000_001).map((_, at) => at * 7);
    await Deno.writeFile(join(tree, "a b/ü/large"), large);
    await Deno.writeTextFile(join(tree, "run.sh"), "#!/bin/sh\n");
    await Deno.chmod(join(tree, "run.sh"), 0o750);
    await Deno.writeTextFile(join(tree, "none"), "");
    await Deno.symlink("run.sh", join(tree, "link"));
    const { copied, skipped } = await upload(remote, tree, `${guest}/new/`);
    assertEquals([copied.length, skipped], [4, []]);
    await download(remote, `${guest}/new/tree`, join(local, "back"));
    const back = join(local, "back");
    assertEquals(await Deno.readFile(join(back, "a b/ü/large")), large);
    assertEquals(Deno.statSync(join(back, "run.sh")).mode! & 0o777, 0o750);
    assertEquals([Deno.statSync(join(back, "none")).size, Deno.statSync(join(back, "empty")).isDirectory], [
      0,
      true,
    ]);
    assertEquals(await Deno.readLink(join(back, "link")), "run.sh");
    await download(remote, `${guest}/new/tree/run.sh`, join(local, "alone"));
    assertEquals(Deno.statSync(join(local, "alone")).mode! & 0o777, 0o750);
  }));

Deno.test("the rules are asked about each file with who, path, size and hash, and none is moved that they refuse", () =>
  withGuest(async (fixture) => {
    const { local, guest, remote, decisions } = fixture;
    await Deno.writeTextFile(join(local, "f"), "content");
    const who = { user: userName(), blake3: blake3("content") };
    for (const to of [`${guest}/f`, "inside/f"]) {
      await upload(remote, join(local, "f"), to);
      await download(remote, to, join(local, "g"));
      const moved = decisions.splice(0).map(
        ({ operation, path, byte_count, labels: { client, ...rest } }) => {
          assert(client.length > 0);
          return [operation, path, byte_count, rest];
        },
      );
      const path = to.startsWith("/") ? to : `/workspace/${to}`;
      assertEquals(moved, [["import", path, 7, who], ["export", path, 7, who]]);
    }
    fixture.refusal = "blocked by rule profiles.no-files";
    await Deno.writeTextFile(join(local, "f"), "other");
    for (const to of [`${guest}/f`, "inside/f"]) {
      assertEquals(await code(upload(remote, join(local, "f"), to)), "policy.blocked");
      assertEquals(await code(download(remote, to, join(local, "h"))), "policy.blocked");
      assertEquals(await code(remote.createFolder(`${to}-folder`)), "policy.blocked");
      assertEquals(await code(remote.writeLink(`${to}-link`, "f")), "policy.blocked");
    }
    assertEquals(await Deno.readTextFile(`${guest}/f`), "content");
    assertEquals(Array.from(Deno.readDirSync(guest), ({ name }) => name), ["f"]);
    assertEquals(Array.from(Deno.readDirSync(local), ({ name }) => name).toSorted(), ["f", "g"]);
    fixture.refusal = undefined;
    await download(remote, "inside/f", join(local, "h"));
    assertEquals(await Deno.readTextFile(join(local, "h")), "content");
  }));

Deno.test("rules see one spelling of a path, and the workspace is not reached by another one", () =>
  withGuest(async ({ guest, remote, decisions }) => {
    await Deno.writeTextFile(`${guest}/f`, "content");
    for (const path of [`/${guest}/f`, `/.${guest}//./f`]) {
      assertEquals(await new Response(ReadableStream.from((await remote.read(path)).body)).text(), "content");
      await remote.write(path, ReadableStream.from([new TextEncoder().encode("content")]), 0o644);
      await remote.createFolder(`${path}older/`);
      const asked = decisions.splice(0).map((each) => each.path);
      assertEquals(asked, [`${guest}/f`, `${guest}/f`, `${guest}/folder`]);
    }
    for (const path of ["//workspace/f", "/./workspace/f", "/.//workspace"]) {
      assertEquals(await code(remote.read(path)), "path.outside_workspace", path);
      assertEquals(await code(remote.list(path)), "path.outside_workspace", path);
    }
  }));

Deno.test("paths that are no file, a VM that is stopped, and / as a whole", () =>
  withGuest(async ({ local, guest, remote, state }) => {
    await new Deno.Command("mkfifo", { args: [`${guest}/pipe`] }).output();
    assertEquals(await code(download(remote, `${guest}/none`, local)), "file.not_found");
    assertEquals(await code(download(remote, `${guest}/pipe`, local)), "file.invalid");
    for (const path of ["/", "//", "/.", "/./"]) {
      assertEquals(await code(download(remote, path, local)), "path.invalid");
    }
    for (const path of [`${guest}/../x`, "/..", `${guest}/x\0`]) {
      assertEquals(await code(remote.read(path)), "path.invalid");
    }
    assertEquals(await code(upload(remote, local, "/proc/nothing/here")), "file.not_found");
    state.state = "Stopped";
    assertEquals(await code(download(remote, `${guest}/none`, local)), "vm.wrong_state");
  }));

Deno.test("a guest that lies leads the host nowhere else", () =>
  withGuest(async ({ local, guest, remote, lies }) => {
    const entry = (path: string) => ({ path, type: "file", size: 1, mode: "0644", modified_unix_ms: 0 });
    const page = (...paths: string[]) =>
      JSON.stringify({ entries: paths.map(entry), truncated: false, left_out: [], left_out_count: 0 });
    for (const path of ["../out", "/etc/passwd", "a/../../out", "", "a//b", ".", "x\0y"]) {
      lies.list = page(path);
      assertEquals(await code(download(remote, guest, join(local, "out"))), "guest.failed", path);
    }
    for (
      const lie of ["", "{", "[]", page("a").replace('"file"', '"door"'), page(...Array(10_001).fill("a"))]
    ) {
      lies.list = lie;
      assertEquals(await code(download(remote, guest, join(local, "out"))), "guest.failed");
    }
    // A listing without an end, and one of more than any machine holds.
    for (
      const [more, expected] of [
        [{ truncated: true, next_cursor: "a" }, "guest.failed"],
        [{ truncated: true }, "guest.failed"],
        [{ truncated: true, next_cursor: "b", entries: [] }, "guest.failed"],
        [{ truncated: true, next_cursor: "a", left_out_count: 1_000_001 }, "repo.too_large"],
      ] as const
    ) {
      lies.list = JSON.stringify({ ...JSON.parse(page("a")), ...more });
      assertEquals(await code(download(remote, guest, join(local, "out"))), expected, lies.list);
    }
    delete lies.list;
    await Deno.writeTextFile(`${guest}/f`, "12345");
    for (
      const [size, expected] of [[4, "file.conflict"], [6, "file.conflict"], [1e15, "disk.full"], [
        -1,
        "guest.failed",
      ]]
    ) {
      lies.stat = JSON.stringify({ type: "file", size, mode: "644" });
      assertEquals(await code(download(remote, `${guest}/f`, join(local, "f"))), expected, `${size}`);
    }
    lies.stat = JSON.stringify({ type: "file", size: 5, mode: "4755" });
    await download(remote, `${guest}/f`, join(local, "f"));
    assertEquals(Deno.statSync(join(local, "f")).mode! & 0o7777, 0o755);
  }));
