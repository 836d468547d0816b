/** Output of a guest on GitHub's runners, which obey commands in it, and files of a run. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { makeReportFolder, writeReport } from "../../../cmd/sbx/start/ci_output.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

const SCRIPT = `
import { showProgram } from "./cmd/sbx/start/ci_output.ts";
const line = (event, data) => "event: " + event + "\\ndata: " + JSON.stringify(data) + "\\n\\n";
const output = (text) => ({ data: new TextEncoder().encode(text).toBase64() });
const code = await showProgram(new Response(
  line("stdout", output("::add-mask::a\\n")) + line("stderr", output("::warning::b")) + line("exit", { exit_code: 3 }),
));
Deno.exit(code);
`;

async function show(env: Record<string, string>) {
  const args = ["eval", "--quiet", SCRIPT];
  const { code, stdout, stderr } = await runChild(Deno.execPath(), { args, cwd: fromRoot("."), env });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

Deno.test("on GitHub all output of a guest is between the word that stops commands and the one that ends it", async () => {
  const { code, stdout, stderr } = await show({ GITHUB_ACTIONS: "true" });
  const word = /^::stop-commands::(\S+)\n/.exec(stdout)?.[1];
  assertEquals(stdout, `::stop-commands::${word}\n::add-mask::a\n::warning::b\n::${word}::\n`);
  assertEquals([code, stderr], [3, ""], "the runner may read standard error before or after standard output");
  assertEquals(await show({ GITHUB_ACTIONS: "" }), {
    code: 3,
    stdout: "::add-mask::a\n",
    stderr: "::warning::b",
  });
});

async function withFolder(test: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await test(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a report replaces links that a commit brought, and is in no folder behind one", () =>
  withFolder(async (dir) => {
    const [own, out, record] = ["own", "out", "record"].map((name) => join(dir, name));
    await Deno.writeTextFile(own, "as before");
    await Deno.writeTextFile(record, "record");
    await makeReportFolder(join(out));
    for (const name of ["junit.xml", "session.db"]) await Deno.symlink(own, join(out, name));
    await writeReport(out, { "junit.xml": "report" }, record);
    const texts = ["out/junit.xml", "out/session.db", "own"].map((name) =>
      Deno.readTextFileSync(join(dir, name))
    );
    assertEquals(texts, ["report", "record", "as before"]);
    assertEquals([...Deno.readDirSync(out)].length, 2);
    await Deno.symlink(out, join(dir, "link"));
    await assertRejects(() => makeReportFolder(join(dir, "link")), SbxError, "is a symbolic link");
    await assertRejects(() => makeReportFolder(own), SbxError, "cannot be made");
  }));

Deno.test("scripts/ci.sh publishes no folder with links", () =>
  withFolder(async (dir) => {
    const output = join(dir, "output");
    const run = async () => {
      const env = { SBX_CI_OUT: join(dir, "out"), SBX_CI_COMMAND: "", GITHUB_OUTPUT: output };
      const { code, stderr } = await runChild(fromRoot("scripts/ci.sh"), { args: [], cwd: dir, env });
      const published = await Deno.readTextFile(output).catch(() => "");
      return [code, new TextDecoder().decode(stderr).split(":")[1], published];
    };
    await Deno.mkdir(join(dir, "out/below"), { recursive: true });
    await Deno.symlink("/etc/hostname", join(dir, "out/below/link"));
    assertEquals(await run(), [2, ` ${dir}/out is or has a symbolic link`, ""]);
    await Deno.remove(join(dir, "out/below/link"));
    assertEquals(await run(), [2, " SBX_CI_COMMAND is empty", `out=${dir}/out\n`]);
    await Deno.remove(output);
    await Deno.rename(join(dir, "out"), join(dir, "other"));
    await Deno.symlink(join(dir, "other"), join(dir, "out"));
    assertEquals((await run())[2], "");
  }));
