/** Names that a guest's kernel drops, with the file system mounted as it was. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";

const PROGRAM = join(import.meta.dirname!, "../../../helper/drop_names.ts");

Deno.test({
  name: "a file system stays mounted as it was when its names are dropped",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: ["-Urm", Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", PROGRAM].concat([
        "rw",
        "ro",
        "nosuid,nodev,noexec,noatime",
        "ro,noexec",
      ]),
    }).output();
    const text = new TextDecoder();
    assertEquals(
      text.decode(stdout).trim().split("\n").map((line) => line.split(" ")),
      ["rw,relatime;rw", "ro,relatime;ro", "rw,nosuid,nodev,noexec,noatime;rw", "ro,noexec,relatime;ro"].map(
        (each) => [each, each],
      ),
      text.decode(stderr),
    );
  },
});
