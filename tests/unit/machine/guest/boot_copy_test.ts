import { assertEquals } from "@std/assert";
import { fromRoot, runDeno } from "../../../helper/repo.ts";

Deno.test("a copy of a machine reads nothing of /proc before its root file system is there", async () => {
  const program = await Deno.makeTempFile({ suffix: ".ts" });
  const agent = fromRoot("cmd/guest/pty_agent/boot.ts");
  await Deno.writeTextFile(program, `import { BootConfig } from "${agent}"; new BootConfig({}, true);`);
  const config = ["--config", fromRoot("deno.json"), "--cached-only"];
  const flags = ["--quiet", "--no-check", "--no-prompt", "--allow-read", "--allow-ffi", "--deny-read=/proc"];
  try {
    assertEquals(await runDeno(["run", ...flags, ...config, program]), "");
  } finally {
    await Deno.remove(program);
  }
});
