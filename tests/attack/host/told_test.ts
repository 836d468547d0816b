/**
 * The line by which root's report in a VM tells a program that it was refused, and
 * programs that want it elsewhere.
 */
import { assertEquals } from "@std/assert";
import { writeLine } from "../../../ffi/libc/process.ts";

/**
 * Changes its standard error between a pipe and a file that it may only read, for as long as its input lasts.
 */
const FLIP = `
import os, select
pipe, file = os.pipe(), os.open(os.environ["FILE"], os.O_RDONLY)
os.write(1, b"ready")
while not select.select([0], [], [], 0)[0]:
    for _ in range(1000):
        os.dup2(pipe[1], 2)
        os.dup2(file, 2)
`;

Deno.test("a file that a program may only read is not written in its place", async (t) => {
  const dir = await Deno.makeTempDir();
  const file = `${dir}/passwd`;
  await Deno.writeTextFile(file, "root:x:0:0\n");
  try {
    await t.step("at once", () => {
      writeLine(file, "refused");
      assertEquals(Deno.readTextFileSync(file), "root:x:0:0\n");
    });
    await t.step("in a race", async () => {
      const child = new Deno.Command("python3", {
        args: ["-c", FLIP],
        env: { FILE: file },
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn();
      await child.stdout.getReader().read();
      for (let at = 0; at < 2000; at++) writeLine(`/proc/${child.pid}/fd/2`, "refused");
      await child.stdin.close();
      await child.status;
      assertEquals(Deno.readTextFileSync(file), "root:x:0:0\n");
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a pipe gets the line", async () => {
  const child = new Deno.Command("cat", { stdin: "piped", stdout: "null", stderr: "piped" }).spawn();
  writeLine(`/proc/${child.pid}/fd/2`, "refused");
  await child.stdin.close();
  assertEquals(await new Response(child.stderr).text(), "refused\n");
  await child.status;
});
