/** Folders whose every change the host's kernel reports. */
import { assertEquals } from "@std/assert";
import { isOfThisMachine } from "../../../../lib/machine/live/notices.ts";

const MOUNTS = `
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 22 0:40 / /mnt/nfs rw - nfs4 server:/share rw
41 22 0:41 / /home/ada/a\\040b rw - tmpfs tmpfs rw
42 22 0:42 / /home/ada/shop/remote rw - fuse.sshfs there: rw
43 22 0:43 / /srv rw - xfs /dev/vdb rw
44 43 0:44 / /srv rw - 9p host rw
`;

Deno.test("a folder of this machine reports all changes; one that others can change does not", () => {
  for (
    const [folder, expected] of [
      ["/home/ada", false],
      ["/home/ada/prices", true],
      ["/home/ada/shop", false],
      ["/home/ada/a b", true],
      ["/home/ada/a b/c", true],
      ["/mnt/nfs/project", false],
      ["/mnt/nfs2", true],
      ["/srv/x", false],
    ] as const
  ) assertEquals(isOfThisMachine(folder, MOUNTS), expected, folder);
  assertEquals(isOfThisMachine("/home", ""), false);
});
