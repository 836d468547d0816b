/**
 * `sbx cp` with paths outside the workspace: through the service, a VM's process and the
 * agent's code; and a hostile guest.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { download } from "../../cmd/sbx/files/cp_download.ts";
import { upload } from "../../cmd/sbx/files/cp.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { userName } from "../../lib/base/user/mod.ts";
import { withGuest } from "../helper/cp_guest.ts";

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
      assertEquals(moved, [
        ["import", path, 7, { ...who, kind: "file", mode: "644" }],
        ["export", path, 7, who],
      ]);
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
