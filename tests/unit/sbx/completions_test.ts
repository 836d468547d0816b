/** Completions of shells: commands, options and words. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { command as completions } from "../../../cmd/sbx/admin/completions.ts";
import { allCommands } from "../../../cmd/sbx/commands.ts";
import { isGroup } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";
import { parse, runSbx } from "../../helper/sbx_command.ts";

Deno.test("completions: the bash script completes commands, options and words", async () => {
  const script = await runSbx(["completions", "bash"]);
  const complete = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const { stdout, stderr, code } = await runChild("bash", {
      args: [
        "--norc",
        "-c",
        `sbx() { case $2 in names) echo vm-one;; jobs-all) echo 0a 0b;; jobs-running) echo 0b;; esac; }\n${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${
          words.length - 1
        }; _sbx; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
    });
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    return new TextDecoder().decode(stdout).trim().split("\n");
  };
  assertEquals((await runChild("bash", { args: ["-n", "-c", script] })).code, 0);
  assertEquals(await complete("sbx", "st"), ["status", "start", "stop"]);
  assertEquals(await complete("sbx", "run", "--ti"), ["--timeout"]);
  assertEquals(await complete("sbx", "exec", "vm"), ["vm-one"]);
  assertEquals(await complete("sbx", "jobs", "list", "vm"), ["vm-one"]);
  assertEquals(await complete("sbx", "jobs", "logs", "0"), ["0a", "0b"]);
  assertEquals(await complete("sbx", "jobs", "attach", "0"), ["0b"]);
  assertEquals(await complete("sbx", "jobs", "stop", "0a", "0"), ["0b"]);
  assertEquals(await complete("sbx", "completions", "z"), ["zsh"]);
  assertEquals(await complete("sbx", "settings", "ex"), ["explain"]);
  assertEquals(await complete("sbx", "mcp", "call", "--p"), ["--profile"]);
  assertEquals(await complete("sbx", "exec", "demo", "--", "v"), [""]);
});

Deno.test("completions: zsh and fish name every command and option", async () => {
  for (const shell of ["zsh", "fish"]) {
    const script = await runSbx(["completions", shell]);
    for (const command of await allCommands()) {
      assert(script.includes(command.name));
      for (const { name, options } of isGroup(command) ? command.subcommands : [command]) {
        for (const option of options) assert(script.includes(option.name), `${shell} ${name} ${option.name}`);
      }
    }
  }
  await assertRejects(
    async () => completions.run(await parse(completions, ["tcsh"])),
    SbxError,
    "tcsh",
  );
});
