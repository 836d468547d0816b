/** Flags of system calls, whose values differ between architectures. */
import { assertEquals } from "@std/assert";
import { constants } from "node:fs";
import * as flags from "../../../ffi/libc/flags.ts";

Deno.test("flags of open(2) are those of this machine's kernel", () => {
  const { O_DIRECTORY, O_NOFOLLOW } = flags;
  assertEquals({ O_DIRECTORY, O_NOFOLLOW }, {
    O_DIRECTORY: constants.O_DIRECTORY,
    O_NOFOLLOW: constants.O_NOFOLLOW,
  });
});

Deno.test("no other file has its own values of them", () => {
  const own = Array.from(Deno.readDirSync("ffi/libc"), ({ name }) => `ffi/libc/${name}`)
    .filter((path) => !path.endsWith("/flags.ts"))
    .filter((path) =>
      /\bO_(CLOEXEC|PATH|DIRECTORY|NOFOLLOW|DIRECT|LARGEFILE)\b = /.test(Deno.readTextFileSync(path))
    );
  assertEquals(own, []);
});
