/**
 * The moments that a race may hit, one at a time: what was a folder or a file is
 * something else when it is opened.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { CallError } from "../../../../ffi/libc/descriptor.ts";
import { Folder } from "../../../../ffi/libc/tree.ts";
import { capture } from "../../../../lib/machine/snapshot/capture.ts";
import { Objects } from "../../../../lib/machine/snapshot/objects.ts";
import { Pace } from "../../../../lib/machine/snapshot/pace.ts";
import { withSnapshots } from "../../../helper/snapshot.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("a folder that became a link is not entered, and no path leaves the root", () =>
  withSnapshots(async ({ workspace, outside, sh }) => {
    await sh('mkdir -p real/in; ln -s "$1" out; ln -s real link; ln -s .. real/up; echo host >"$1/x"');
    using root = Folder.open(workspace);
    using inside = root.folder(bytes("real/in"));
    assertEquals([...inside.names()], []);
    const code = (path: string) => assertThrows(() => root.folder(bytes(path)), CallError).code;
    assertEquals(["out", "link", "link/in", "real/up", ".."].map(code), [
      "ELOOP",
      "ELOOP",
      "ELOOP",
      "ELOOP",
      "EXDEV",
    ]);
    assertEquals(code(outside), "EXDEV");
  }));

Deno.test("a file that became a link, a pipe or a folder is not opened", () =>
  withSnapshots(async ({ workspace, sh }) => {
    await sh('echo host >"$1/x"; ln -s "$1/x" link; mkfifo pipe; mkdir folder; echo 1 >file');
    using root = Folder.open(workspace);
    for (const name of ["link", "pipe", "folder"]) assertEquals(root.openFile(bytes(name)), undefined);
    using file = root.openFile(bytes("file"));
    assertEquals(file?.stat().size, 2);
  }));

Deno.test("a file changed in the 2 s before the last snapshot is read again, an older one is not", () =>
  withSnapshots(async ({ workspace, dir, put }) => {
    await put("a", "content");
    await Deno.mkdir(`${dir}/objects`);
    using folder = Folder.open(workspace);
    using objects = new Objects(`${dir}/objects`);
    const options = {
      workspace: folder,
      objects,
      pace: new Pace(),
      store: false,
      disk: { path: dir, keep: 0 },
    };
    const first = await capture(options);
    const entry = first.entries.get("a")!;
    const { object } = entry;
    // As if the content had changed within the same tick of the clock: the same stamp, another hash.
    const previous = { entries: new Map([["a", { ...entry, object: "0".repeat(64) }]]) };
    const at = async (ms: number) =>
      (await capture({ ...options, previous: { ...previous, started_unix_ms: entry.ctime * 1000 + ms } }))
        .entries
        .get("a")!.object;
    assertEquals([await at(0), await at(1999), await at(2001)], [object, object, "0".repeat(64)]);
  }));
