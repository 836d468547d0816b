/** Output of programs that someone else controls. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { limitedOutput } from "../../../lib/base/spawn/mod.ts";

const LIMITS = { bytes: 1000, ms: 60_000 };
const shell = (script: string, limits = LIMITS) => limitedOutput("sh", { args: ["-c", script] }, limits);

Deno.test("a program's output and success are returned", async () => {
  assertEquals(await shell("echo out; echo err >&2; exit 3"), {
    success: false,
    stdout: "out\n",
    stderr: "err\n",
  });
});

Deno.test("a program that prints without end is ended", async () => {
  for (const script of ["yes", "yes >&2"]) {
    await assertRejects(() => shell(script), SbxError, "more than 1000 bytes");
  }
});

Deno.test("a program that lasts, and one whose streams another holds, are not waited for", async () => {
  for (const script of ["exec sleep 600", "sleep 600 & exit 0"]) {
    await assertRejects(() => shell(script, { bytes: 1000, ms: 300 }), SbxError, "has not ended");
  }
});

Deno.test({
  name: "a program has no terminal",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const { stdout } = await shell("cut -d' ' -f5,6,7 /proc/$$/stat; echo $$");
    const [session, pid] = stdout.trim().split("\n");
    // Its own group and session, and no terminal.
    assertEquals(session, `${pid} ${pid} 0`);
  },
});
