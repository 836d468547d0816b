/** Ctrl-C and other ends of a copy, in a program of its own. */
import { assertEquals, assertRejects } from "@std/assert";
import { withPartialFile } from "../../../cmd/sbx/files/cp_download.ts";
import { limitChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

/** Writes a partial file, says so, and waits for ever. */
const WRITER = `
import { withPartialFile } from ${JSON.stringify(`file://${fromRoot("cmd/sbx/files/cp_download.ts")}`)};
await withPartialFile(Deno.args[0], async () => {
  await Deno.writeTextFile(Deno.args[0], "half");
  console.log("written");
  await new Promise((resolve) => setTimeout(resolve, 600_000));
});
`;

for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]] as const) {
  Deno.test(`${signal} removes the partial file`, async () => {
    const dir = await Deno.makeTempDir();
    await Deno.writeTextFile(`${dir}/writer.ts`, WRITER);
    const child = limitChild(
      new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--quiet", `${dir}/writer.ts`, `${dir}/part`],
        stdin: "null",
        stdout: "piped",
      }).spawn(),
    );
    const reader = child.stdout.getReader();
    await reader.read();
    assertEquals(await Deno.readTextFile(`${dir}/part`), "half");
    child.kill(signal);
    await reader.cancel();
    assertEquals((await child.status).code, code);
    await assertRejects(() => Deno.lstat(`${dir}/part`), Deno.errors.NotFound);
    await Deno.remove(dir, { recursive: true });
  });
}

Deno.test("an error removes the partial file; a renamed one stays", async () => {
  const dir = await Deno.makeTempDir();
  await assertRejects(() =>
    withPartialFile(`${dir}/part`, async () => {
      await Deno.writeTextFile(`${dir}/part`, "half");
      throw new Error("no space");
    })
  );
  await withPartialFile(`${dir}/part`, async () => {
    await Deno.writeTextFile(`${dir}/part`, "whole");
    await Deno.rename(`${dir}/part`, `${dir}/file`);
  });
  assertEquals(await Array.fromAsync(Deno.readDir(dir), ({ name }) => name), ["file"]);
  await Deno.remove(dir, { recursive: true });
});
