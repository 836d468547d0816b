/** The examples that judge patches, in forks of a VM: TypeScript's and Python's give the same verdicts. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

/** Time limit of one example in `ms`: it boots a VM and its copies. */
const LIMIT_MS = 500_000;

const EXAMPLES: [language: string, program: string, args: string[]][] = [
  ["TypeScript", Deno.execPath(), [
    "run",
    "-A",
    "--quiet",
    "--no-config",
    "sdk/typescript/examples/evaluate.ts",
  ]],
  ["Python", "python3", ["sdk/python/examples/evaluate.py"]],
];

const VERDICTS: [patch: string, text: string, exitCode: number][] = [
  ["good.patch", "2", 0],
  ["bad.patch", "3", 1],
];

Deno.test("patches are judged in copies of one VM, and nothing of them stays", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const place = await Deno.makeTempDir({ prefix: "sbx-evaluate-" });
  try {
    const repo = join(place, "repo");
    await Deno.mkdir(repo);
    await Deno.writeTextFile(join(repo, "answer"), "1\n");
    for (const args of [["init", "-q"], ["add", "."], ["commit", "-qm", "one"]]) {
      const author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
      assertEquals((await runChild("git", { args: ["-C", repo, ...author, ...args] })).code, 0);
    }
    const patches = await Promise.all(VERDICTS.map(async ([name, text]) => {
      const path = join(place, name);
      const diff = `--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-1\n+${text}\n`;
      await Deno.writeTextFile(path, diff);
      return path;
    }));
    await sbx.ok("start");
    for (const [language, program, args] of EXAMPLES) {
      await t.step(language, async () => {
        const { code, stdout, stderr } = await runChild(program, {
          args: [...args, repo, 'test "$(cat answer)" = 2', ...patches],
          cwd: fromRoot(""),
          env: {
            ...sbx.env,
            AT_ONCE: "2",
            PYTHONPATH: fromRoot("sdk/python/src"),
            PYTHONDONTWRITEBYTECODE: "1",
          },
        }, LIMIT_MS);
        const errors = new TextDecoder().decode(stderr);
        assertEquals(code, 0, errors);
        assertStringIncludes(errors, "1 of 2 passed");
        const lines = new TextDecoder().decode(stdout).trim().split("\n").map((line) => JSON.parse(line));
        const verdicts = lines.map(({ patch, exit_code }) => [patch, exit_code]).sort();
        assertEquals(verdicts, VERDICTS.map(([name, _, exitCode]) => [name, exitCode]).sort());
        assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms?.length ?? 0, 0);
      });
    }
  } finally {
    await sbx.dispose();
    await Deno.remove(place, { recursive: true });
  }
});
