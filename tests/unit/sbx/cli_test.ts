import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { command as completions } from "../../../cmd/sbx/commands/completions.ts";
import { ROWS_MAX } from "../../../cmd/sbx/commands/detection.ts";
import { command as exec } from "../../../cmd/sbx/commands/exec.ts";
import { command as list } from "../../../cmd/sbx/commands/list.ts";
import { allCommands, COMMANDS } from "../../../cmd/sbx/commands/mod.ts";
import { command as run } from "../../../cmd/sbx/commands/run.ts";
import { command as verify } from "../../../cmd/sbx/commands/verify.ts";
import { Remote, UPLOAD_MAX } from "../../../cmd/sbx/cp_remote.ts";
import { upload } from "../../../cmd/sbx/cp_upload.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { table } from "../../../cmd/sbx/output.ts";
import { parseEnv, programRequest, TIMEOUT_MAX_SECS } from "../../../cmd/sbx/program.ts";
import { parseSetting, SETTING_FILE_MAX } from "../../../cmd/sbx/settings_value.ts";
import { sizeOf } from "../../../cmd/sbx/size.ts";
import { ModeTracker } from "../../../cmd/sbx/terminal.ts";
import config from "../../../deno.json" with { type: "json" };
import { CreateRequest, EXEC_TIMEOUT_MAX_SECS, RunRequest } from "../../../lib/api/mod.ts";
import {
  type Arguments,
  type Command,
  findSubcommand,
  formatHelp,
  isGroup,
  parseArguments,
} from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import { Client } from "../../../lib/client/mod.ts";
import { EVIDENCE_ROWS_MAX } from "../../../lib/detection/schema.ts";
import { BODY_MAX } from "../../../lib/gateway/mod.ts";
import type { LeafNode } from "../../../lib/settings/node/mod.ts";
import { runChild } from "../../helper/child.ts";

function parse(command: Command, argv: string[]): Promise<Arguments> {
  return parseArguments({ program: "sbx", command }, argv);
}

Deno.test("arguments: options before and after words, =, short, repeated, and a program that keeps its dashes", async () => {
  const args = await parse(exec, [
    "-e",
    "A=1",
    "demo",
    "--env=B=2=3",
    "--timeout",
    "1.5",
    "-i",
    "--",
    "ls",
    "-la",
    "--json",
    "--",
  ]);
  assertEquals(args.words, ["demo"]);
  assertEquals(args.list("env"), ["A=1", "B=2=3"]);
  assertEquals([args.text("timeout"), args.has("interactive"), args.has("json")], ["1.5", true, false]);
  assertEquals(args.program, ["ls", "-la", "--json", "--"]);
});

Deno.test("arguments: an invalid call is rejected, with a suggestion", async () => {
  const cases: [string[], RegExp, RegExp][] = [
    [["--timeot", "1", "demo"], /unknown option --timeot of sbx exec/, /--timeout/],
    // As parseArgs would read them, MY_SECRET of this host would go into the VM.
    [["demo", "-eTOKEN=MY_SECRET"], /unknown option -eTOKEN=MY_SECRET/, /./],
    [["demo", "-it"], /unknown option -it/, /./],
    [["demo", "-e=A"], /unknown option -e=A/, /./],
    [["demo", "--no-json=1"], /unknown option --no-json/, /./],
    [["demo", "-x"], /unknown option -x of sbx exec/, /--help/],
    [["demo", "--timeout"], /needs a value/, /./],
    [["demo", "--timeout", "--", "ls"], /needs a value/, /./],
    [["--timeout", "1", "--timeout", "2", "demo"], /--timeout may be given only once/, /./],
    [["--json=1", "demo"], /takes no value/, /./],
    [[], /missing argument: sbx exec .*NAME/, /sbx exec --help/],
    [["demo", "ls", "/"], /unexpected argument "ls"/, /sbx exec demo -- ls \//],
  ];
  for (const [argv, message, hint] of cases) {
    const error = await assertRejects(() => parse(exec, argv), SbxError);
    assertEquals(error.code, "usage.invalid");
    assertMatch(error.message, message);
    assertMatch(error.hint!, hint);
  }
  await assertRejects(() => parse(list, ["--", "ls"]), SbxError, "does not run a program");
  await assertRejects(() => parse(list, ["x"]), SbxError, 'unexpected argument "x"');
});

Deno.test("arguments: the resulting requests are valid for the API", async () => {
  const args = await parse(run, [
    "--profile",
    "code",
    "--cpus",
    "2",
    "--ram",
    "512",
    "-e",
    "K=a b",
    "--timeout",
    "0.5",
    "--cwd",
    "/tmp",
    "--",
    "sh",
    "-c",
    "exit 3",
  ]);
  const request = { ...await programRequest(run, args), ...sizeOf(args) };
  assertEquals(RunRequest.parse(request), {
    command: ["sh", "-c", "exit 3"],
    cwd: "/tmp",
    env: { K: "a b" },
    timeout_secs: 0.5,
    profile_id: "code",
    cpus: 2,
    ram_mb: 512,
  });
  const limits: [string, string, string, keyof typeof CreateRequest.shape][] = [
    ["--cpus", "8", "9", "cpus"],
    ["--ram", "256", "255", "ram_mb"],
  ];
  for (const [flag, good, bad, field] of limits) {
    sizeOf(await parse(run, [flag, good]));
    assert(CreateRequest.safeParse({ [field]: Number(good) }).success);
    assert(!CreateRequest.safeParse({ [field]: Number(bad) }).success);
    for (const value of [bad, "", "x", "1e999", "2.5"]) {
      await assertRejects(async () => sizeOf(await parse(run, [flag, value])), SbxError, flag);
    }
  }
  for (const bad of ["=x", "1A=x", "A-B=x", "SBX_TEST_UNSET"]) {
    await assertRejects(async () => await Promise.resolve(parseEnv(run, [bad])), SbxError);
  }
  assertEquals(TIMEOUT_MAX_SECS, EXEC_TIMEOUT_MAX_SECS);
  assertEquals(UPLOAD_MAX, BODY_MAX);
  assertEquals(ROWS_MAX, EVIDENCE_ROWS_MAX);
});

Deno.test("commands: each is in the file of its name, with help and examples", async () => {
  const commands = await allCommands();
  assertEquals(commands.map(({ name }) => name), COMMANDS);
  const all = await Deno.readTextFile(new URL("../../../cmd/sbx/commands/all.ts", import.meta.url));
  for (const name of COMMANDS) assert(all.includes(`"./${name}.ts"`), `all.ts does not name ${name}`);
  for (const command of commands) {
    const help = formatHelp("sbx", command);
    const leaves = isGroup(command) ? command.subcommands : [command];
    for (const leaf of leaves) {
      assert(leaf.name === command.name || leaf.name.startsWith(`${command.name} `), leaf.name);
      assert(help.includes(`sbx ${leaf.name}`), leaf.name);
      assert(leaf.examples.length > 0, leaf.name);
      for (const example of leaf.examples) assertMatch(example, new RegExp(`sbx ${leaf.name}`));
      for (const { name } of leaf.options) assert(formatHelp("sbx", leaf).includes(`--${name}`), leaf.name);
    }
  }
});

Deno.test("subcommands: found also after options, with help of their own and of their group", async () => {
  const settings = (await allCommands()).find(({ name }) => name === "settings")!;
  const mcp = (await allCommands()).find(({ name }) => name === "mcp")!;
  if (!isGroup(settings) || !isGroup(mcp)) throw new Error("settings and mcp must be groups");
  const { command, rest } = await findSubcommand("sbx", mcp, ["-p", "tools", "call", "a__b", "--json"]);
  assertEquals([command?.name, rest], ["mcp call", ["-p", "tools", "a__b", "--json"]]);
  assertEquals(await findSubcommand("sbx", settings, ["--help"]), { rest: ["--help"] });
  const { hint, message } = await assertRejects(() => findSubcommand("sbx", settings, ["gte"]), SbxError);
  assertEquals([message, hint], [
    'unknown subcommand "gte"; one of list, get, set, reset, explain, edit',
    "did you mean sbx settings get?",
  ]);
  await assertRejects(() => findSubcommand("sbx", settings, []), SbxError, "needs a subcommand: list, get");
  const set = settings.subcommands.find(({ name }) => name === "settings set")!;
  // A switch does not take the following word, and -- ends the options.
  assertEquals((await parse(set, ["app.auto_update", "--json", "true"])).words, ["app.auto_update", "true"]);
  assertEquals((await parse(set, ["x", "--", "-5"])).words, ["x", "-5"]);
  assertMatch(await runSbx(["settings", "set", "--help"]), /^sbx settings set ID VALUE/);
  assertMatch(await runSbx(["settings", "--help"]), /sbx settings explain ID/);
});

Deno.test("version: the constant equals the version in deno.json", () => {
  assertEquals(VERSION, config.version);
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

Deno.test("completions: the bash script completes commands, options and words", async () => {
  const script = await runSbx(["completions", "bash"]);
  const complete = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const { stdout, stderr, code } = await runChild("bash", {
      args: [
        "--norc",
        "-c",
        `sbx() { echo vm-one; }\n${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${
          words.length - 1
        }; _sbx; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
    });
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    return new TextDecoder().decode(stdout).trim().split("\n");
  };
  assertEquals((await runChild("bash", { args: ["-n", "-c", script] })).code, 0);
  assertEquals(await complete("sbx", "st"), ["start", "stop", "status"]);
  assertEquals(await complete("sbx", "run", "--ti"), ["--timeout"]);
  assertEquals(await complete("sbx", "exec", "vm"), ["vm-one"]);
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

Deno.test("cp: modes are uploaded, links and files over the limit are skipped, other files are sent", async () => {
  const dir = await Deno.makeTempDir();
  const sent: [string, string][] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const { byteLength: size } = await request.arrayBuffer();
    if (pathname.endsWith("/list")) {
      return Response.json({ error: "not there", code: "file.not_found" }, { status: 404 });
    }
    if (pathname.endsWith("/info")) return Response.json({ workspace: "/host/workspace" });
    sent.push([searchParams.get("path")!, searchParams.get("mode")!]);
    return Response.json({ size });
  });
  const remote = new Remote(new Client(`http://127.0.0.1:${server.addr.port}`), "demo");
  try {
    await Deno.writeTextFile(`${dir}/a`, "a");
    await Deno.chmod(`${dir}/a`, 0o4750);
    await Deno.symlink("a", `${dir}/link`);
    const { copied, skipped } = await upload(remote, dir, "to");
    assertEquals(sent, [["to/a", "0750"]]);
    assertEquals(copied, [{ from: `${dir}/a`, to: "to/a", size: 1 }]);
    assertEquals(skipped, [`${dir}/link`]);
    await Deno.writeTextFile(`${dir}/z`, "");
    await Deno.truncate(`${dir}/z`, UPLOAD_MAX + 1);
    assertEquals((await upload(remote, dir, "to")).skipped, [`${dir}/link`, `${dir}/z`]);
    assertEquals(sent.length, 2);
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

/** Runs the CLI. @returns its standard output */
async function runSbx(args: string[]): Promise<string> {
  const { stdout, code } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--quiet", new URL("../../../main.ts", import.meta.url).pathname, ...args],
  });
  assertEquals(code, 0);
  return new TextDecoder().decode(stdout);
}
