/** Arguments of sbx: options, words, subcommands, and the requests that they make. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ROWS_MAX } from "../../../cmd/sbx/rules/detection.ts";
import { command as events } from "../../../cmd/sbx/record/events.ts";
import { command as login } from "../../../cmd/sbx/rules/login.ts";
import { command as create } from "../../../cmd/sbx/vm/create.ts";
import { command as exec } from "../../../cmd/sbx/vm/exec.ts";
import { command as list } from "../../../cmd/sbx/vm/list.ts";
import { allCommands, COMMANDS, TOPICS } from "../../../cmd/sbx/commands.ts";
import { command as run } from "../../../cmd/sbx/start/run.ts";
import { parseEnv, programRequest, TIMEOUT_MAX_SECS } from "../../../cmd/sbx/vm/program.ts";
import { diskOf, formatRam, sizeOf } from "../../../cmd/sbx/vm/new_vm.ts";
import { CreateRequest, EXEC_TIMEOUT_MAX_SECS, RunRequest } from "../../../lib/client/api/mod.ts";
import { type Command, findSubcommand, formatHelp, isGroup } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { EVENT_FAMILIES } from "../../../lib/event/mod.ts";
import { EVIDENCE_ROWS_MAX } from "../../../lib/detection/schema.ts";
import { parse, runSbx } from "../../helper/sbx_command.ts";

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

Deno.test("arguments: a value outside of a closed list is refused, with the list and the nearest of it", async () => {
  const refused = async (command: Command, argv: string[]) => {
    const { code, message, hint } = await assertRejects(() => parse(command, argv), SbxError);
    return [code, message, hint];
  };
  assertEquals(await refused(events, ["demo", "--family", "htp"]), [
    "usage.invalid",
    'unknown value "htp" of --family',
    `did you mean "http"? give one of ${EVENT_FAMILIES.join(", ")}`,
  ]);
  assertEquals((await refused(events, ["demo", "--decision=no"]))[2], "give one of allow, ask, block");
  assertEquals((await parse(events, ["demo", "--decision", "ask"])).text("decision"), "ask");
});

Deno.test("arguments: the resulting requests are valid for the API", async () => {
  const args = await parse(run, [
    "--profile",
    "code",
    "--cpus",
    "2",
    "--ram",
    "512",
    "--arch",
    "arm64",
    "-e",
    "K=a b",
    "--timeout",
    "0.5",
    "--cwd",
    "/tmp",
    "--user",
    "me:1000",
    "--",
    "sh",
    "-c",
    "exit 3",
  ]);
  const request = { ...await programRequest(run, args, undefined, false), ...sizeOf(args) };
  assertEquals(RunRequest.parse(request), {
    command: ["sh", "-c", "exit 3"],
    cwd: "/tmp",
    user: "me:1000",
    env: { K: "a b" },
    timeout_secs: 0.5,
    profile_id: "code",
    cpus: 2,
    ram_mb: 512,
    arch: "arm64",
  });
  const limits: [string, string, string, keyof typeof CreateRequest.shape][] = [
    ["--cpus", "64", "65", "cpus"],
  ];
  const rams: [string, number][] = [
    ["4", 4096],
    ["0.5", 512],
    ["16", 16384],
    ["4g", 4096],
    ["4GiB", 4096],
    ["1.5G", 1536],
    ["512m", 512],
    ["256", 256],
    ["16384", 16384],
    ["32G", 32768],
    ["2048 MB", 2048],
    ["4096", 4096],
    ["0.25T", 262144],
  ];
  for (const [text, ram_mb] of rams) {
    assertEquals(sizeOf(await parse(run, ["--ram", text])).ram_mb, ram_mb, text);
    assert(CreateRequest.safeParse({ ram_mb }).success);
  }
  for (
    const bad of [
      "0.1",
      "262145",
      "257g",
      "255m",
      "4k",
      "",
      "x",
      "-4",
      "1e3",
      "4.0001",
      "0",
      "4b",
      "4gg",
      "1e3G",
    ]
  ) {
    await assertRejects(async () => sizeOf(await parse(run, ["--ram", bad])), SbxError, "--ram");
  }
  for (const text of ["40", "40G", "40 GiB", "40gb", "40960M"]) {
    assertEquals(diskOf(await parse(create, ["vm", "--disk", text])), 40, text);
  }
  assert(CreateRequest.safeParse({ disk_gb: diskOf(await parse(create, ["vm", "--disk", "1024"])) }).success);
  for (const bad of ["0", "1025", "40m", "", "x", "1.5", "40b", "40 000"]) {
    await assertRejects(async () => diskOf(await parse(create, ["vm", "--disk", bad])), SbxError, "--disk");
  }
  const refusals: [string, string, string][] = [
    ["--ram", "100M", "--ram 100M: the least is 256M"],
    ["--ram", "300G", "--ram 300G: the most is 256G"],
    ["--ram", "4X", '--ram 4X: "X" is not a unit; these are M, G and T'],
    ["--ram", "1.0001G", "--ram 1.0001G: not a whole number of MiB"],
    ["--ram", "lots", "--ram lots: not a size"],
    ["--disk", "4096", "--disk 4096: it is 4096G, and the most is 1024G"],
    ["--disk", "512M", "--disk 512M: the least is 1G"],
    ["--disk", "1536M", "--disk 1536M: not a whole number of GiB"],
  ];
  for (const [flag, text, message] of refusals) {
    const read = flag === "--ram" ? sizeOf : diskOf;
    const error = await assertRejects(async () => read(await parse(create, ["vm", flag, text])), SbxError);
    assertEquals(error.message, message);
    assert(error.hint?.startsWith("give "), error.hint);
  }
  assertEquals([formatRam(2048), formatRam(1536)], ["2 GiB", "1536 MiB"]);
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
  assertEquals(ROWS_MAX, EVIDENCE_ROWS_MAX);
});

Deno.test("commands: each is in the file of its name, with help and examples", async () => {
  const commands = await allCommands();
  assertEquals(commands.map(({ name }) => name), COMMANDS);
  const all = await Deno.readTextFile(new URL("../../../cmd/sbx/all.ts", import.meta.url));
  assertEquals(
    [...all.matchAll(/^import "(.*)";$/gm)].map(([, file]) => file),
    TOPICS.flatMap(({ folder, commands }) => commands.map((name) => `./${folder}/${name}.ts`)),
  );
  for (const command of commands) {
    const help = formatHelp("sbx", command, 80);
    const leaves = isGroup(command) ? command.subcommands : [command];
    for (const leaf of leaves) {
      assert(leaf.name === command.name || leaf.name.startsWith(`${command.name} `), leaf.name);
      assert(help.includes(`sbx ${leaf.name}`), leaf.name);
      assert(leaf.examples.length > 0, leaf.name);
      // The fallback of a group may be called without its own word.
      const isFallback = isGroup(command) && leaf.name === `${command.name} ${command.fallback}`;
      const called = isFallback ? `${command.name}( ${command.fallback})?` : leaf.name;
      for (const example of leaf.examples) assertMatch(example, new RegExp(`sbx ${called}`));
      for (const { name } of leaf.options) {
        assert(formatHelp("sbx", leaf, 80).includes(`--${name}`), leaf.name);
      }
    }
  }
});

Deno.test("help: its lines are as wide as the terminal at most, and say the same at every width", async () => {
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
  for (const command of await allCommands()) {
    for (const each of isGroup(command) ? [command, ...command.subcommands] : [command]) {
      const [narrow, usual, wide] = [40, 80, 200].map((width) => formatHelp("sbx", each, width));
      assertEquals(words(narrow), words(wide), each.name);
      assertEquals(words(usual), words(wide), each.name);
      for (const [width, help] of [[40, narrow], [80, usual], [200, wide]] as const) {
        // Examples are for copying, and a word is never broken.
        const [text] = help.split("\n\nExamples:");
        const long = text.split("\n").filter((line) => line.length > width && words(line).length > 1);
        assertEquals(long, [], each.name);
      }
    }
  }
});

Deno.test("help: every command is in one topic, on one line of at most 80 columns", async () => {
  const lines = (await runSbx(["help"])).trimEnd().split("\n");
  assertEquals(lines.filter((line) => line.length > 80), []);
  assertEquals(
    lines.flatMap((line) => /^ {2}([a-z0-9-]+) {2,}\S/.exec(line)?.[1] ?? []),
    [...COMMANDS],
  );
  assertEquals(new Set(COMMANDS).size, COMMANDS.length);
  const titles = lines.filter((line) => /^[A-Z].*:$/.test(line));
  assertEquals(titles, TOPICS.map(({ title }) => `${title}:`));
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
    'did you mean "sbx settings get"?',
  ]);
  await assertRejects(() => findSubcommand("sbx", settings, []), SbxError, "needs a subcommand: list, get");
  const set = settings.subcommands.find(({ name }) => name === "settings set")!;
  // A switch does not take the following word, and -- ends the options.
  assertEquals((await parse(set, ["app.auto_update", "--json", "true"])).words, ["app.auto_update", "true"]);
  assertEquals((await parse(set, ["x", "--", "-5"])).words, ["x", "-5"]);
  assertMatch(await runSbx(["settings", "set", "--help"]), /^sbx settings set ID VALUE/);
  assertMatch(await runSbx(["settings", "--help"]), /sbx settings explain ID/);
});

Deno.test("a switch whose name begins with no- is one of its own, not the negative of another", async () => {
  assert((await parse(login, ["claude", "--no-browser"])).has("no-browser"));
  assert((await parse(create, ["demo", "--no-wait"])).has("no-wait"));
});
