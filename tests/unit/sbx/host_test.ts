import { assert, assertEquals, assertThrows } from "@std/assert";
import { COMMANDS } from "../../../cmd/sbx/commands.ts";
import { REMOTE_COMMANDS, takeHost } from "../../../cmd/sbx/host.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

const none = { get: () => undefined };

Deno.test("every command that works on another machine is one, and so is the command that takes it back", () => {
  assertEquals([...REMOTE_COMMANDS].filter((name) => !COMMANDS.includes(name)), []);
  for (
    const pair of ["delete restore", "suspend resume", "pause resume", "push pull", "allow deny", "save undo"]
  ) {
    const [done, undone] = pair.split(" ").map((name) => REMOTE_COMMANDS.has(name));
    assertEquals(done, undone, pair);
  }
});

Deno.test("a command for another machine is taken from behind its address, and others are refused", () => {
  assertEquals(takeHost(["--host", "ssh://build.example", "restore", "dev"], none), ["restore", "dev"]);
  assertEquals(takeHost(["--host=ssh://build.example", "list"], none), ["list"]);
  const error = assertThrows(() => takeHost(["--host", "ssh://build.example", "desktop"], none), SbxError);
  assertEquals(error.code, "host.local_command");
  assert(error.hint?.includes("--host"));
  takeHost([], none);
});
