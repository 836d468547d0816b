import { assertEquals } from "@std/assert";
import { deathOf } from "../../../lib/session/machine.ts";

Deno.test("a kernel's last words are found at the end of a long console, and are one harmless line", async () => {
  const path = await Deno.makeTempFile();
  try {
    const words = "VFS: Unable to mount root fs on unknown-block(0,0)";
    const noise = "[    4.120348]  </TASK>\r\n";
    const write = (text: string) => Deno.writeTextFile(path, text);
    await write(`${noise.repeat(20_000)}[ 4.1] Kernel panic - not syncing: ${words}\r\n${noise.repeat(40)}`);
    assertEquals(await deathOf(path), `its kernel: ${words}`);
    await write(`Kernel panic - not syncing: \x1b[2J\u202e${"x".repeat(500)}\n`);
    const hostile = await deathOf(path);
    assertEquals([hostile?.length, hostile?.startsWith("its kernel: ?[2J?xxx")], [
      160 + "its kernel: ".length,
      true,
    ]);
    await write(noise);
    assertEquals(await deathOf(path), undefined);
    assertEquals(await deathOf(`${path}.gone`), undefined);
  } finally {
    await Deno.remove(path);
  }
});
