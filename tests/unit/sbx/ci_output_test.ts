/** Output of a guest on GitHub's runners, which obey commands in it. */
import { assertEquals } from "@std/assert";
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
