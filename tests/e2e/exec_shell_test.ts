/** `sbx exec` and `sbx run` in the launcher's shell: the same output and exit codes as from the client in TypeScript. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { pipeSteps } from "./pipe_steps.ts";
import { sshSteps } from "./ssh_steps.ts";

const PROGRAMS: string[][] = [
  ["true"],
  ["sh", "-c", "exit 7"],
  ["sh", "-c", "exit 124"],
  ["sh", "-c", "echo out; echo err >&2; kill -9 $$"],
  ["printf", "%s|", "", "a  b", "\"'\\n\\", "$HOME", "*", "--", "%s", "\\u0041"],
  ["sh", "-c", "printf '\\000\\377\\n\\r\\033[1m'; printf x >&2"],
  ["echo", "grüße", "1\n2"],
  ["no-such-program"],
  ["seq", "5000"],
  ["sh", "-c", "for i in $(seq 40); do echo $i; sleep 0.01; done; echo end >&2; exit 3"],
];

Deno.test("sbx exec and sbx run in the launcher's shell", async (t) => {
  const sbx = await Sbx.make();
  const shellOnly = await Deno.makeTempDir();
  try {
    await sbx.ok("create", "dev", "-e", 'QUOTED=a "b" \\c $d');
    const exec = (program: string[], ...options: string[]) =>
      sbx.cli("exec", ...options, "dev", "--", ...program);

    for (const program of PROGRAMS) {
      await t.step(`ends like the client in TypeScript: ${JSON.stringify(program)}`, async () => {
        // An option is left to that client.
        assertEquals(await exec(program), await exec(program, "--cwd", "/workspace"));
      });
    }

    await t.step("reports an unknown VM like the client in TypeScript", async () => {
      const ran = await sbx.cli("exec", "nobody", "--", "true");
      assertEquals(ran, await sbx.cli("exec", "--cwd", "/", "nobody", "--", "true"));
    });

    for (const program of [["sh", "-c", "echo out; echo err >&2; exit 3"], ["no-such-program"]]) {
      await t.step(`run ends like the client in TypeScript: ${JSON.stringify(program)}`, async () => {
        const [inShell, byClient] = await Promise.all([
          sbx.cli("run", "--", ...program),
          sbx.cli("run", "--cwd", "/workspace", "--", ...program),
        ]);
        assertEquals(inShell, byClient);
      });
    }

    await t.step("needs no Deno, and shows nobody the token", async () => {
      await Deno.mkdir(join(shellOnly, "bin"));
      await Deno.mkdir(join(shellOnly, "cmd/sbx"), { recursive: true });
      for (const file of ["bin/sbx", "cmd/sbx/exec.sh"]) {
        await Deno.copyFile(fromRoot(file), join(shellOnly, file));
      }
      const programs = join(shellOnly, "bin");
      const alone = await Sbx.make({ home: sbx.home, programs, env: { SHELLOPTS: "xtrace" } });
      const { code, stdout, stderr } = await alone.cli("exec", "dev", "--", "sh", "-c", "env; exit 5");
      assertEquals(code, 5);
      assertStringIncludes(stdout, "PWD=/workspace");
      assertStringIncludes(stderr, "exec_in_shell");
      assertEquals((stdout + stderr).includes(sbx.token), false);
      assertEquals((await alone.cli("run", "--", "sh", "-c", "exit 6")).code, 6);
      assertEquals((await alone.cli("list")).code, 125);
    });

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
      for (const options of [[], ["--cwd", "/"]]) {
        const line = "setsid sleep 283 & sleep 284 & echo started; exit 7";
        assertEquals((await exec(["sh", "-c", line], ...options)).code, 7);
        assertEquals((await exec(["pkill", "-c", "-f", "^sleep 28[34]"])).stdout, "2\n");
      }
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
    await Deno.remove(shellOnly, { recursive: true });
    await sbx.dispose();
  }
});
