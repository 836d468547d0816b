/**
 * Every role, by its name and as a subcommand of sbx: help, version and refusal of unknown arguments
 * (docs/design/contracts/01-homes.md §1).
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

/** launcher → words before the arguments; sbx-live has no launcher */
const ROLES: Record<string, string[][]> = {
  "sbx": [["sbx"]],
  "sbx-service": [["sbx-service"], ["sbx", "service"]],
  "sbx-process": [["sbx-process"], ["sbx", "process"]],
  "sbx-gateway": [["sbx-gateway"], ["sbx", "gateway"]],
  "sbx-admin": [["sbx-admin"], ["sbx", "admin"]],
  "sbx-mcp-aggregator": [["sbx-mcp-aggregator"], ["sbx", "aggregator"]],
  "sbx-mcp": [["sbx-mcp"]],
  "sbx-tray": [["sbx-tray"], ["sbx", "tray"]],
  "sbx-live": [["sbx", "live"]],
};

for (const [name, forms] of Object.entries(ROLES)) {
  Deno.test(`${name} answers --help and --version, refuses unknown arguments, and writes nothing`, async () => {
    const dir = await Deno.makeTempDir();
    const home = join(dir, "home");
    const run = async ([program, ...words]: string[], ...args: string[]) => {
      const { code, stdout, stderr } = await runChild(fromRoot(`bin/${program}`), {
        args: [...words, ...args],
        env: { SBX_HOME: home, NO_COLOR: "1" },
      });
      return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
    };
    try {
      const [own] = forms;
      const help = await run(own, "--help");
      assertEquals([help.code, help.stderr], [0, ""]);
      assert(help.stdout.startsWith(name) || help.stdout.startsWith("usage: "), help.stdout);
      const version = await run(own, "--version");
      assertEquals([version.code, version.stderr], [0, ""]);
      assert(version.stdout.startsWith(`${name} 0.`), version.stdout);
      // The other form leads to the same program, as its refusal shows.
      for (const words of forms) {
        const refused = await run(words, "--nonsense");
        assertEquals([refused.code, refused.stdout], [2, ""]);
        assertStringIncludes(refused.stderr, "--nonsense");
        assertStringIncludes(refused.stderr, `${name} --help`);
        assert(refused.stderr.trim().split("\n").length <= 2, refused.stderr);
      }
      assertEquals(await Deno.stat(home).catch(() => null), null, "no home was made");
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
}

for (
  const words of [
    "sbx help",
    "sbx version --json",
    "sbx-admin --help",
    "sbx-admin --version",
    "sbx-admin manifest check --help",
    "sbx-admin manifest check /nonexistent --json",
    "sbx-gateway --help",
  ]
) {
  Deno.test(`${words} ends quietly when its reader has closed the pipe`, async () => {
    // The reader has ended before the program starts.
    const script = `exec 3> >(exec true); wait $!; exec ${fromRoot("bin")}/${words} >&3`;
    const { code, stderr } = await runChild("bash", {
      args: ["-c", script],
      env: { SBX_HOME: "/nonexistent" },
    });
    assertEquals([code, new TextDecoder().decode(stderr)], [141, ""]);
  });
}
