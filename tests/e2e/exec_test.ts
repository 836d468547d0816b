/**
 * `sbx exec`: programs that are piped, connections of SSH, readers that go away, and daemons that do not run.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { pipeSteps } from "./pipe_steps.ts";
import { sshSteps } from "./ssh_steps.ts";

/** program → exit code, standard output, standard error of it */
const PROGRAMS: [program: string[], code: number, stdout: string, stderr?: string][] = [
  [["true"], 0, ""],
  [["sh", "-c", "exit 124"], 124, "", "sbx: the program exceeded its timeout, or exited with 124 itself\n"],
  [["sh", "-c", "echo out; echo err >&2; kill -9 $$"], 137, "out\n", "err\n"],
  [
    ["printf", "%s|", "", "a  b", "\"'\\n\\", "$HOME", "*", "--", "\\u0041"],
    0,
    "|a  b|\"'\\n\\|$HOME|*|--|\\u0041|",
  ],
  [["sh", "-c", "printf '\\000\\n\\r\\033[1m'; printf x >&2"], 0, "\0\n\r\x1b[1m", "x"],
  [["echo", "grüße", "1\n2"], 0, "grüße 1\n2\n"],
  [
    ["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.01; done; echo end >&2; exit 3"],
    3,
    "1\n2\n3\n",
    "end\n",
  ],
];

Deno.test("sbx exec", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("create", "dev", "-e", 'QUOTED=a "b" \\c $d');
    const exec = (program: string[], ...options: string[]) =>
      sbx.cli("exec", ...options, "dev", "--", ...program);

    for (const [program, code, stdout, stderr = ""] of PROGRAMS) {
      await t.step(`ends as its program does: ${JSON.stringify(program)}`, async () => {
        assertEquals(await exec(program), { code, stdout, stderr });
      });
    }

    await t.step("runs the program once", async () => {
      await exec(["sh", "-c", "echo ran >> runs; exit 4"]);
      assertEquals((await exec(["cat", "runs"])).stdout, "ran\n");
    });

    await t.step("ends the program when its reader goes away", async () => {
      const { stdout } = await new Deno.Command("bash", {
        args: ["-c", '"$0" exec dev -- yes | head -n 1', fromRoot("bin/sbx")],
        env: sbx.env,
        stderr: "null",
      }).output();
      assertEquals(new TextDecoder().decode(stdout), "y\n");
      await eventually("yes has ended", async () => (await exec(["pgrep", "-x", "yes"])).code === 1);
    });

    await t.step("ends with its program, while a child goes on", async () => {
      const line = "setsid sleep 283 & sleep 284 & echo started; exit 7";
      assertEquals((await exec(["sh", "-c", line])).code, 7);
      assertEquals((await exec(["pkill", "-c", "-f", "^sleep 28[34]"])).stdout, "2\n");
    });

    await pipeSteps(t, sbx, "dev");
    await sshSteps(t, sbx, "dev");

    await t.step("starts the daemons when none runs", async () => {
      await sbx.ok("stop");
      const { code, stderr } = await exec(["true"]);
      assertEquals(code, 0, stderr);
      assertStringIncludes(stderr, "starting sbx");
    });
  } finally {
    await sbx.dispose();
  }
});
