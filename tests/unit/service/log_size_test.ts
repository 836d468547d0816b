/** Logs of a home's programs begin again when they are full, under the program that writes them. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { limitChild } from "../../helper/child.ts";
import { boundLogs } from "../../../lib/service/health/log_size.ts";

Deno.test("a full log begins again while its program writes, and its lines stay beside it", async () => {
  const logsDir = await Deno.makeTempDir();
  const log = join(logsDir, "service.log"), other = join(logsDir, "gateway.log");
  try {
    await Deno.writeTextFile(other, "short\n");
    // As lib/base/spawn starts a program: the log is its standard output, opened for appending.
    const child = new Deno.Command("sh", {
      args: ["-c", 'exec 3>&1 >>"$1"; while read -r line; do echo "$line"; echo >&3; done', "sh", log],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const program = limitChild(child);
    const writer = program.stdin.getWriter(), written = program.stdout.getReader();
    const say = async (text: string) => {
      await writer.write(new TextEncoder().encode(`${text}\n`));
      await written.read();
    };
    await say("first");
    assertEquals(await boundLogs({ logsDir }, 6), []);
    await say("second");
    assertEquals(await boundLogs({ logsDir }, 6), ["service.log"]);
    await say("third");
    assertEquals(await Deno.readTextFile(log), "third\n");
    assertEquals(await Deno.readTextFile(`${log}.1`), "first\nsecond\n");
    assertEquals((await Deno.stat(`${log}.1`)).mode! & 0o777, (await Deno.stat(log)).mode! & 0o777);
    await say("a fourth line");
    assertEquals(await boundLogs({ logsDir }, 6), ["service.log"]);
    assertEquals(await Deno.readTextFile(`${log}.1`), "third\na fourth line\n");
    assertEquals(await Deno.readTextFile(other), "short\n");
    await writer.close();
    await written.cancel();
    await program.status;
  } finally {
    await Deno.remove(logsDir, { recursive: true });
  }
});
