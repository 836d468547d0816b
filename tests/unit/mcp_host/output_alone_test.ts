/** Output of programs in the results of sbx-mcp, and the configuration that it prints. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { parse } from "smol-toml";
import { configFor } from "../../../cmd/mcp/config.ts";
import { main } from "../../../cmd/mcp/main.ts";
import { follow, HeadAndTail } from "../../../cmd/mcp/tools/output.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";
import { Random } from "../../helper/random.ts";
import type { Parsed } from "../../helper/json.ts";

Deno.test("the first and last bytes of long output are kept, however it is cut", () => {
  const random = new Random(20260704);
  const encoder = new TextEncoder();
  for (let round = 0; round < 2000; round++) {
    const text = Array.from({ length: random.below(60) }, () => String.fromCharCode(97 + random.below(26)))
      .join("");
    const bytes = 2 * (1 + random.below(20));
    const output = new HeadAndTail(bytes);
    for (let at = 0; at < text.length;) {
      const step = 1 + random.below(15);
      output.add(encoder.encode(text.slice(at, at += step)));
    }
    const [half, omitted] = [bytes / 2, text.length - bytes];
    const expected = omitted <= 0
      ? text
      : `${text.slice(0, half)}\n… ${omitted} bytes omitted …\n${text.slice(-half)}`;
    assertEquals([output.text(), output.isCut], [expected, omitted > 0], `${text} ${bytes}`);
  }
});

function stream(...events: [string, unknown][]): ReadableStream<Uint8Array> {
  const text = events.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  return ReadableStream.from([new TextEncoder().encode(text)]);
}

const out = (text: string) => ({ data: btoa(text) });
const EXIT = { exit_code: 3, truncated: false, duration_ms: 5, event_id: "0123456789ab" };

Deno.test("a program's stream becomes its result, and its lines are progress", async () => {
  const lines: string[] = [];
  const booted: unknown[] = [];
  const options = {
    bytes: 1024,
    progress: (line: string) => void lines.push(line),
    onBoot: (vm: unknown) => void booted.push(vm),
  };
  const events: [string, unknown][] = [
    ["booted", { session_id: "s" }],
    ["stdout", out("one\ntwo\n")],
    ["stderr", out("oops\n")],
    ["stdout", out("\n")],
    ["exit", EXIT],
    ["events", { events: [{ decision: "block" }] }],
  ];
  const { exit, events: recorded } = await follow(stream(...events), options);
  assertEquals(exit, { ...EXIT, stdout: "one\ntwo\n\n", stderr: "oops\n" });
  assertEquals([booted, recorded], [[{ session_id: "s" }], [{ decision: "block" }]]);
  assertEquals(lines, ["the VM has booted", "two", "oops"]);
  const failed = ["error", { error: "gone", code: "vm.not_found", hint: "look" }] as [string, unknown];
  const error = await assertRejects(() => follow(stream(events[0], failed), options), SbxError);
  assertEquals([error.code, error.message, error.hint], ["vm.not_found", "gone", "look"]);
  const broken = await assertRejects(() => follow(stream(events[1]), options), SbxError);
  assertEquals(broken.code, "process.gone");
});

Deno.test("--print-config names the program and the home, in the agent's own format", async () => {
  const home = Deno.env.get("SBX_HOME");
  Deno.env.set("SBX_HOME", `/tmp/a "b" 'c'`);
  try {
    const value = `/tmp/a "b" 'c'`;
    const codex: Parsed = parse(await configFor("codex"));
    assert(codex.mcp_servers.sbx.command.endsWith("sbx-mcp"));
    assertEquals(codex.mcp_servers.sbx.env.SBX_HOME, value);
    const vscode = JSON.parse((await configFor("vscode")).split("\n").slice(1).join("\n"));
    assertEquals(vscode.servers.sbx.env.SBX_HOME, value);
    const claude = await configFor("claude");
    assertEquals(JSON.parse(claude.slice(claude.indexOf("\n{"))).mcpServers.sbx.env.SBX_HOME, value);
    const line = claude.split("\n").find((each) => each.startsWith("claude mcp add"))!;
    const { stdout } = await runChild("sh", {
      args: ["-c", `claude() { printf '%s\\n' "$@"; }; ${line}`],
    });
    const words = new TextDecoder().decode(stdout).split("\n");
    assertEquals(words[words.indexOf("--env") + 1], `SBX_HOME=${value}`);
  } finally {
    if (home === undefined) Deno.env.delete("SBX_HOME");
    else Deno.env.set("SBX_HOME", home);
  }
});

Deno.test("invalid arguments exit with 2", async () => {
  for (
    const args of [["--nope"], ["--http", "1"], ["--http", "--port", "x"], ["--print-config", "emacs"], [
      "--print-config",
      "constructor",
    ]]
  ) assertEquals(await main(args), 2, args.join(" "));
});
