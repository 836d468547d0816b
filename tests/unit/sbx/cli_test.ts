/** Parts of sbx: its output, terminal, setting files, copies and the version. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { command as agent } from "../../../cmd/sbx/start/agent.ts";
import { SETUP } from "../../../cmd/sbx/start/agent_setup.ts";
import { command as verify } from "../../../cmd/sbx/record/verify.ts";
import { Remote } from "../../../cmd/sbx/files/cp_remote.ts";
import { upload } from "../../../cmd/sbx/files/cp.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { table } from "../../../cmd/sbx/output.ts";
import { parseSetting, SETTING_FILE_MAX } from "../../../cmd/sbx/admin/settings.ts";
import { ModeTracker } from "../../../cmd/sbx/vm/attach.ts";
import config from "../../../deno.json" with { type: "json" };
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import { Client } from "../../../lib/client/mod.ts";
import type { LeafNode } from "../../../lib/config/settings/node/mod.ts";
import { parse } from "../../helper/sbx_command.ts";

Deno.test("version: the constant equals the version in deno.json", () => {
  assertEquals(VERSION, config.version);
});

Deno.test("agent: a name that does not exist is named first, with the nearest agent or subcommand", async () => {
  for (const [word, near] of [["claud", "claude"], ["lst", "list"], ["gemin", "gemini"]]) {
    const args = await parse(agent.subcommands[0], [word, "."]);
    const error = await assertRejects(async () => await agent.subcommands[0].run(args), SbxError);
    assertEquals([error.code, error.hint], ["agent.not_found", `did you mean "sbx agent ${near}"?`]);
  }
  const args = await parse(SETUP, ["claud", "."]);
  const error = await assertRejects(async () => await SETUP.run(args), SbxError);
  assertEquals(error.hint, 'did you mean "sbx agent setup claude"?');
});

Deno.test("agent: a wrong size is refused before keys, questions and images", async () => {
  for (const [option, value] of [["--ram", "4X"], ["--disk", "40Q"], ["--cpus", "0"]]) {
    const args = await parse(agent.subcommands[0], ["claude", ".", "-p", "x", option, value]);
    const error = await assertRejects(async () => await agent.subcommands[0].run(args), SbxError);
    assertStringIncludes(error.message, option);
  }
});

Deno.test("words that people try lead to a command that is accepted as written", async () => {
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), { args, env: { NO_COLOR: "1" } });
    return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
  };
  const attach = await run("attach", "--help");
  assertEquals([attach.code, attach.text.split("\n")[0]], [0, "sbx agent attach VM"]);
  assertStringIncludes((await run("attach")).text, "missing argument: sbx agent attach VM");
  assertEquals((await run("help", "attach")).text, attach.text);
  assertStringIncludes((await run("help", "credentials", "add")).text, "sbx credentials add PROVIDER");
  for (const [word, usage] of [["rm", "delete"], ["ls", "list"], ["ps", "list"], ["ssh", "shell"]]) {
    const { code, text } = await run(word, "--help");
    assertEquals([code, text.split(" ", 2).join(" ")], [0, `sbx ${usage}`], word);
  }
  for (const [word, hint] of [["answer", "sbx allow ASK"], ["kill", "sbx stop NAME"], ["race", "--race 3"]]) {
    const { code, text } = await run(word, "x");
    assertEquals(code, 2);
    assertStringIncludes(
      text,
      `unknown command "${word}"\n${hint.startsWith("--") ? "sbx agent run" : hint}`,
    );
  }
});

Deno.test("output: control characters of a guest are replaced, and columns fit", () => {
  assertEquals(plain("a\x1b[2Jb\r\n\u009bc\td"), "a�[2Jb� �c\td");
  assertEquals(table(["A", "BB"], [["long", "x"], ["", "y\n"]]), "A     BB\nlong  x\n      y");
});

Deno.test("terminal: remaining modes are turned off, wherever the output is split", () => {
  const output = new TextEncoder().encode(
    "x\x1b[?1049h\x1b[?25l\x1b[?1000;1006h text \x1b[?1006l\x1b[?2004h\x1b[?2004l",
  );
  for (let cut = 0; cut <= output.length; cut++) {
    const tracker = new ModeTracker();
    tracker.track(output.subarray(0, cut));
    tracker.track(output.subarray(cut));
    assertEquals(tracker.resetSequence(), "\x1b[?1049l\x1b[?1000l\x1b[?25h\x1b[m", `cut at ${cut}`);
  }
  assertEquals(new ModeTracker().resetSequence(), "");
});

Deno.test("settings: @FILE reads a file, but no device and no file over the limit", async () => {
  const leaf = { id: "x", setting_type: "file", effective_value: { path: "/p", content: "" } } as LeafNode;
  const file = await Deno.makeTempFile();
  try {
    await Deno.truncate(file, SETTING_FILE_MAX + 1);
    await assertRejects(() => parseSetting(leaf, `@${file}`), SbxError, "bytes");
    await assertRejects(() => parseSetting(leaf, "@/dev/zero"), SbxError, "is not a file");
    await assertRejects(() => parseSetting(leaf, "@/nowhere/at/all"), SbxError, "cannot be read");
    await Deno.truncate(file, 1);
    assertEquals(await parseSetting(leaf, `@${file}`), { path: "/p", content: "\0" });
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("cp: modes and links are uploaded, special files are skipped, and a file of other size is an error", async () => {
  const dir = await Deno.makeTempDir();
  const sent: [string, string][] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const { byteLength: size } = await request.arrayBuffer();
    if (pathname.endsWith("/list")) {
      return Response.json({ error: "not there", code: "file.not_found" }, { status: 404 });
    }
    if (pathname.endsWith("/info")) return Response.json({ workspace: "/host/workspace" });
    sent.push([searchParams.get("path")!, searchParams.get("mode") ?? searchParams.get("type")!]);
    return Response.json({ size: Math.min(size, 1) });
  });
  const remote = new Remote(
    new Client(`http://127.0.0.1:${server.addr.port}`, undefined, Deno.createHttpClient({})),
    "demo",
  );
  try {
    await Deno.writeTextFile(`${dir}/a`, "a");
    await Deno.chmod(`${dir}/a`, 0o4750);
    await Deno.symlink("a", `${dir}/link`);
    await runChild("mkfifo", { args: [`${dir}/pipe`] });
    const { copied, skipped } = await upload(remote, dir, "to");
    assertEquals(sent, [["to/a", "0750"], ["to/link", "symlink"]]);
    assertEquals(copied, [
      { from: `${dir}/a`, to: "to/a", size: 1 },
      { from: `${dir}/link`, to: "to/link", size: 0 },
    ]);
    assertEquals(skipped, [`${dir}/pipe`]);
    await Deno.writeTextFile(`${dir}/z`, "zz");
    const { code, message } = await assertRejects(() => upload(remote, dir, "to"), SbxError);
    assertEquals([code, message], ["file.conflict", '"to/z" was copied with 1 of 2 bytes']);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("verify: an argument that is not a name, session or file is not found, with a hint", async () => {
  for (const word of ["./no-such-file.db", "00000000-0000-4000-8000-000000000000"]) {
    const args = await parse(verify, [word]);
    const { code, hint } = await assertRejects(() => verify.run(args), SbxError);
    assertEquals(code, "ledger.not_found");
    assertMatch(hint!, /sbx sessions lists/);
  }
});
