/** Completions of shells: commands, options and words. */
import { assertEquals, assertRejects } from "@std/assert";
import { command as completions } from "../../../cmd/sbx/admin/completions.ts";
import { allCommands } from "../../../cmd/sbx/commands.ts";
import { isGroup } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";
import { runCalls } from "../../helper/cli_calls.ts";
import { parse, runSbx } from "../../helper/sbx_command.ts";

/** Candidates for the last word of each line, without a service. */
async function candidatesOf(lines: string[][]): Promise<string[][]> {
  const home = await Deno.makeTempDir();
  try {
    const calls = lines.map((typed) => ["sbx", "completions", "words", "--", ...typed]);
    const results = await runCalls(calls, { SBX_HOME: home, PATH: Deno.env.get("PATH") ?? "" });
    return results.map(({ stdout }) =>
      stdout.split("\n").filter(Boolean).map((line) => line.replace(/(?<=.)\t.*/, ""))
    );
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("completions: commands, options, their values and words, in the order of help", async () => {
  const cases: [string[], string[]][] = [
    [["st"], ["status", "start", "stop"]],
    [["run", "--ti"], ["--timeout"]],
    [["run", "--arch", ""], ["arm64", "x86_64"]],
    [["completions", "z"], ["zsh"]],
    [["settings", "ex"], ["explain"]],
    [["mcp", "call", "--p"], ["--profile"]],
    [["help", "pu"], ["purge", "push", "pull"]],
    [["help", "credentials", "a"], ["add", "audit"]],
    [["help", "run", ""], []],
    [["agent", "c"], ["claude", "cline", "cn", "codex", "copilot"]],
    [["agent", "run", "--prompt", "c"], []],
    [["agent", "claude", "--det"], ["--detach"]],
    [["rm", "--js"], ["--json"]],
    [["exec", "demo", "--", "v"], ["\tfiles"]],
    [["run", "--cwd", "/"], []],
    [["hunt", "--over", ""], []],
    [["hunt", "x"], ["\tfiles"]],
    [["agent", "claude", ""], ["\tfolders"]],
    [["events", "demo", "--family", "h"], ["http"]],
    [["run", "--profile", "lo"], ["locked"]],
    [["policy", "test", "--profile", "lo"], ["locked"]],
    [["project", "approve", ""], ["\tfolders"]],
    [["agent", "setup", "claude", ""], ["\tfolders"]],
    [["settings", "get", "vm.snapshots.en"], ["vm.snapshots.enabled"]],
    [["settings", "set", "app.notifications", ""], ["true", "false"]],
    [["settings", "set", "ledger.on_full", ""], ["pause", "block"]],
    [["login", "g"], ["gemini"]],
    [["--host", ""], []],
    [["exec", ""], []],
    [["nothing", ""], []],
  ];
  const found = await candidatesOf(cases.map(([typed]) => typed));
  assertEquals(cases.map(([typed], at) => [typed, found[at]]), cases);
});

Deno.test("completions: each script asks for the words that were typed, and shows the answer", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const script = await runSbx(["completions", shell]);
    if (shell === "bash") {
      const { stdout, stderr, code } = await runChild("bash", {
        args: [
          "--norc",
          "-c",
          `sbx() { printf '%s\\tabout\\n' "$*" two; }\n${script}\nCOMP_WORDS=(sbx exec a:b 't' more); COMP_CWORD=3
           COMP_LINE='sbx exec a:b t more'; COMP_POINT=14; _sbx; printf '%s\\n' "\${COMPREPLY[@]}"`,
        ],
      });
      assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
      assertEquals(new TextDecoder().decode(stdout), "completions\\ words\\ --\\ exec\\ a:b\\ t\ntwo\n");
    }
  }
  await assertRejects(
    async () => completions.run(await parse(completions, ["tcsh"])),
    SbxError,
    "tcsh",
  );
});

Deno.test("completions: no command completes more words than it takes", async () => {
  for (const entry of await allCommands()) {
    for (const { name, completes = [], words } of isGroup(entry) ? entry.subcommands : [entry]) {
      assertEquals(completes.length <= (words?.max ?? 0), true, name);
    }
  }
});
