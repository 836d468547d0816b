import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { parseArguments } from "../../../cmd/sbx/arguments.ts";
import { allCommands, COMMANDS } from "../../../cmd/sbx/commands/mod.ts";
import { command as completions } from "../../../cmd/sbx/commands/completions.ts";
import { Remote, UPLOAD_MAX } from "../../../cmd/sbx/cp_remote.ts";
import { upload } from "../../../cmd/sbx/cp_upload.ts";
import { command as exec } from "../../../cmd/sbx/commands/exec.ts";
import { helpOf } from "../../../cmd/sbx/commands/help.ts";
import { command as list } from "../../../cmd/sbx/commands/list.ts";
import { plain, table } from "../../../cmd/sbx/output.ts";
import { envOf, programRequest, TIMEOUT_MAX_SECS } from "../../../cmd/sbx/program.ts";
import { command as run } from "../../../cmd/sbx/commands/run.ts";
import { parseSetting, SETTING_FILE_MAX } from "../../../cmd/sbx/settings_value.ts";
import { sizeOf } from "../../../cmd/sbx/size.ts";
import { ModeTracker } from "../../../cmd/sbx/terminal.ts";
import { command as verify } from "../../../cmd/sbx/commands/verify.ts";
import { CreateRequest, EXEC_TIMEOUT_MAX_SECS, RunRequest } from "../../../lib/api/mod.ts";
import { Client } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { BODY_MAX } from "../../../lib/gateway/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import type { LeafNode } from "../../../lib/settings/node.ts";
import config from "../../../deno.json" with { type: "json" };

Deno.test("arguments: options before and after words, =, short, repeated, and a program that keeps its dashes", async () => {
  const given = await parseArguments(exec, [
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
  assertEquals(given.words, ["demo"]);
  assertEquals(given.list("env"), ["A=1", "B=2=3"]);
  assertEquals([given.text("timeout"), given.on("interactive"), given.on("json")], ["1.5", true, false]);
  assertEquals(given.program, ["ls", "-la", "--json", "--"]);
});

Deno.test("arguments: what cannot be meant is refused, with what was probably meant", async () => {
  const cases: [string[], RegExp, RegExp][] = [
    [["--timeot", "1", "demo"], /no option --timeot/, /--timeout/],
    [["demo", "-x"], /no option -x/, /--help/],
    [["demo", "--timeout"], /needs a value/, /./],
    [["demo", "--timeout", "--", "ls"], /needs a value/, /./],
    [["--timeout", "1", "--timeout", "2", "demo"], /given twice/, /./],
    [["--json=1", "demo"], /takes no value/, /./],
    [[], /needs .*NAME/, /./],
    [["demo", "ls", "/"], /"ls" is one word too many/, /sbx exec demo -- ls \//],
  ];
  for (const [args, message, hint] of cases) {
    const error = await assertRejects(() => parseArguments(exec, args), SbxError);
    assertEquals(error.code, "usage.invalid");
    assertMatch(error.message, message);
    assertMatch(error.hint!, hint);
  }
  await assertRejects(() => parseArguments(list, ["--", "ls"]), SbxError, "runs no program");
  await assertRejects(() => parseArguments(list, ["x"]), SbxError, "one word too many");
});

Deno.test("arguments: the requests that they make are valid for the API", async () => {
  const given = await parseArguments(run, [
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
  const request = { ...await programRequest(run, given), ...sizeOf(given) };
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
    sizeOf(await parseArguments(run, [flag, good]));
    assert(CreateRequest.safeParse({ [field]: Number(good) }).success);
    assert(!CreateRequest.safeParse({ [field]: Number(bad) }).success);
    for (const value of [bad, "", "x", "1e999", "2.5"]) {
      const wrong = await parseArguments(run, [flag, value]);
      await assertRejects(async () => await Promise.resolve(sizeOf(wrong)), SbxError, flag);
    }
  }
  for (const bad of ["=x", "1A=x", "A-B=x", "SBX_TEST_UNSET"]) {
    await assertRejects(async () => await Promise.resolve(envOf(run, [bad])), SbxError);
  }
  assertEquals(TIMEOUT_MAX_SECS, EXEC_TIMEOUT_MAX_SECS);
  assertEquals(UPLOAD_MAX, BODY_MAX);
});

Deno.test("commands: each is in its own file under its own name, with help and examples", async () => {
  const commands = await allCommands();
  assertEquals(commands.map(({ name }) => name), COMMANDS);
  const all = await Deno.readTextFile(new URL("../../../cmd/sbx/commands/all.ts", import.meta.url));
  for (const name of COMMANDS) assert(all.includes(`"./${name}.ts"`), `all.ts does not name ${name}`);
  for (const command of commands) {
    assert(command.examples.length > 0, command.name);
    for (const example of command.examples) assertMatch(example, new RegExp(`sbx ${command.name}`));
    const help = helpOf(command);
    for (const { name } of command.options) assert(help.includes(`--${name}`));
  }
});

Deno.test("version: the constant is the one of deno.json", () => {
  assertEquals(VERSION, config.version);
});

Deno.test("output: a guest's text cannot move the cursor, and columns fit", () => {
  assertEquals(plain("a\x1b[2Jb\r\n\u009bc\td"), "a�[2Jb� �c\td");
  assertEquals(table(["A", "BB"], [["long", "x"], ["", "y\n"]]), "A     BB\nlong  x\n      y");
});

Deno.test("terminal: modes that were left on are turned off, wherever the output is cut", () => {
  const output = new TextEncoder().encode(
    "x\x1b[?1049h\x1b[?25l\x1b[?1000;1006h text \x1b[?1006l\x1b[?2004h\x1b[?2004l",
  );
  for (let cut = 0; cut <= output.length; cut++) {
    const tracker = new ModeTracker();
    tracker.see(output.subarray(0, cut));
    tracker.see(output.subarray(cut));
    assertEquals(tracker.restore(), "\x1b[?1049l\x1b[?1000l\x1b[?25h\x1b[m", `cut at ${cut}`);
  }
  assertEquals(new ModeTracker().restore(), "");
});

Deno.test("completions: bash takes the script, and completes commands, options and words", async () => {
  const script = await captured(["completions", "bash"]);
  const complete = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const { stdout, stderr, code } = await new Deno.Command("bash", {
      args: [
        "--norc",
        "-c",
        `sbx() { echo vm-one; }\n${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${
          words.length - 1
        }; _sbx; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
    }).output();
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    return new TextDecoder().decode(stdout).trim().split("\n");
  };
  const syntax = new Deno.Command("bash", { args: ["-n", "-c", script] });
  assertEquals((await syntax.output()).code, 0);
  assertEquals(await complete("sbx", "st"), ["start", "stop", "status"]);
  assertEquals(await complete("sbx", "run", "--ti"), ["--timeout"]);
  assertEquals(await complete("sbx", "exec", "vm"), ["vm-one"]);
  assertEquals(await complete("sbx", "completions", "z"), ["zsh"]);
  assertEquals(await complete("sbx", "exec", "demo", "--", "v"), [""]);
});

Deno.test("completions: zsh and fish name every command and option", async () => {
  for (const shell of ["zsh", "fish"]) {
    const script = await captured(["completions", shell]);
    for (const { name, options } of await allCommands()) {
      assert(script.includes(name));
      for (const option of options) assert(script.includes(option.name), `${shell} ${name} ${option.name}`);
    }
  }
  await assertRejects(
    async () => completions.run(await parseArguments(completions, ["tcsh"])),
    SbxError,
    "tcsh",
  );
});

Deno.test("settings: @FILE takes a file, and none that is endless or too large", async () => {
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

Deno.test("cp: modes go up, links and files that are too large are named, and the others are sent", async () => {
  const dir = await Deno.makeTempDir();
  const sent: [string, string][] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    await request.body?.cancel();
    if (pathname.endsWith("/list")) {
      return Response.json({ error: "not there", code: "file.not_found" }, { status: 404 });
    }
    if (pathname.endsWith("/info")) return Response.json({ workspace: "/host/workspace" });
    sent.push([searchParams.get("path")!, searchParams.get("mode")!]);
    return Response.json({});
  });
  const remote = new Remote(new Client(`http://127.0.0.1:${server.addr.port}`), "demo");
  try {
    await Deno.writeTextFile(`${dir}/a`, "a");
    await Deno.chmod(`${dir}/a`, 0o4750);
    await Deno.symlink("a", `${dir}/link`);
    const { copied, leftOut } = await upload(remote, dir, "to");
    assertEquals(sent, [["to/a", "0750"]]);
    assertEquals(copied, [{ from: `${dir}/a`, to: "to/a", size: 1 }]);
    assertEquals(leftOut, [`${dir}/link`]);
    await Deno.writeTextFile(`${dir}/z`, "");
    await Deno.truncate(`${dir}/z`, UPLOAD_MAX + 1);
    assertEquals((await upload(remote, dir, "to")).leftOut, [`${dir}/link`, `${dir}/z`]);
    assertEquals(sent.length, 2);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("verify: what is no name, session or file is answered with where to look", async () => {
  for (const what of ["./no-such-file.db", "00000000-0000-4000-8000-000000000000"]) {
    const given = await parseArguments(verify, [what]);
    const { code, hint } = await assertRejects(() => verify.run(given), SbxError);
    assertEquals(code, "ledger.not_found");
    assertMatch(hint!, /sbx sessions lists/);
  }
});

/** What the CLI prints. */
async function captured(args: string[]): Promise<string> {
  const { stdout, code } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", new URL("../../../main.ts", import.meta.url).pathname, ...args],
    stderr: "inherit",
  }).output();
  assertEquals(code, 0);
  return new TextDecoder().decode(stdout);
}
