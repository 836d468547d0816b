/** sbx-activity: mounts of a process, and paths below them. */
import { assertEquals } from "@std/assert";
import { below, joined } from "../../../../cmd/guest/activity/mounts.ts";
import { mountsOf } from "../../../../lib/machine/guest/mounts/mod.ts";

/** Lines of mountinfo(5): with tags and without, and with a name that has a space and a backslash. */
const MOUNTINFO = `27 1 0:25 / / rw,relatime - overlay root rw,lowerdir=/lower,upperdir=/upper/data
31 27 0:31 / /workspace rw,relatime shared:1 master:2 - virtiofs workspace rw
64 27 254:16 /data/a\\040b\\134 /tmp/x\\040y ro - ext4 /dev/vdb rw
`;

Deno.test("a mount has its folder of the file system, its place and its type", () => {
  assertEquals(mountsOf(MOUNTINFO), [
    {
      id: 27,
      device: "0:25",
      root: "/",
      point: "/",
      type: "overlay",
      options: "rw,lowerdir=/lower,upperdir=/upper/data",
    },
    { id: 31, device: "0:31", root: "/", point: "/workspace", type: "virtiofs", options: "rw" },
    { id: 64, device: "254:16", root: "/data/a b\\", point: "/tmp/x y", type: "ext4", options: "rw" },
  ]);
});

Deno.test("the rest of a path is what is below a folder, and not beside one of a similar name", () => {
  assertEquals(
    [["/a/b", "/a"], ["/ab", "/a"], ["/a", "/a"], ["/a", "/"], ["/", "/"]].map(([path, folder]) =>
      below(path, folder)
    ),
    ["/b", undefined, "", "/a", ""],
  );
});

Deno.test("a path that is put together again has no slash too many", () => {
  assertEquals(
    [["/", "/a"], ["/", ""], ["/", "/"], ["/jail", "/"], ["/jail", ""], ["/jail", "/a"]].map((
      [folder, rest],
    ) => joined(folder, rest)),
    ["/a", "/", "/", "/jail", "/jail", "/jail/a"],
  );
});
