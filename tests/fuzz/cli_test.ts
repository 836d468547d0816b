/** Every option of every command with values that no person means: a sentence, an exit code, and no stack. */
import { assert, assertEquals } from "@std/assert";
import { allGroups } from "../../cmd/admin/main.ts";
import { allCommands } from "../../cmd/sbx/commands.ts";
import { type Command, type CommandGroup, isGroup } from "../../lib/base/args/mod.ts";
import { runCalls } from "../helper/cli_calls.ts";

/** Longest argument that Linux passes is 128 KiB. */
const LONG = "x".repeat(100_000);
/** Most characters of an error on a terminal. */
const ERROR_MAX = 10_000;
const BAD: [name: string, values: string[], code?: number][] = [
  ["empty", [""], 2],
  ["given twice", ["value", "value"]],
  ["very long", [LONG]],
  ["with control characters", ["a\x1b[2J\x07\r\nb\u202e"]],
];

type Call = { call: string[]; bad: string; expected?: number };

function* calls(program: string, entries: (Command | CommandGroup)[]): Generator<Call> {
  for (const command of entries.flatMap((entry) => isGroup(entry) ? entry.subcommands : [entry])) {
    // Waits for its clients; its options are those of the tests of fleets.
    if (/ serve$/.test(command.name)) continue;
    const words = Array.from({ length: command.words?.min ?? 0 }, (_, at) => `word${at}`);
    const guest = command.program ? ["--", "true"] : [];
    for (const option of command.options.filter(({ value }) => value !== undefined)) {
      for (const [bad, values, code] of BAD) {
        const given = values.map((value) => `--${option.name}=${value}`);
        yield {
          call: [program, ...command.name.split(" "), ...words, ...given, ...guest],
          bad: `--${option.name} ${bad}`,
          expected: values.length > 1 && !option.many ? 2 : code,
        };
      }
    }
    for (const [bad, [value], code] of BAD.filter(([, values]) => values.length === 1)) {
      if (words.length === 0) continue;
      yield {
        call: [program, ...command.name.split(" "), ...words.fill(value), ...guest],
        bad: `words ${bad}`,
        expected: command.emptyWords ? undefined : code,
      };
    }
  }
}

Deno.test("bad values of options and words end with a sentence, and without a stack", async () => {
  const all = [...calls("sbx", await allCommands()), ...calls("sbx-admin", await allGroups())];
  assert(all.length > 500, `${all.length} calls`);
  // No home can be made there, so that no call starts a service.
  const results = await runCalls(all.map(({ call }) => call), { SBX_HOME: "/dev/null/home", PATH: "" });
  const wrong = all.flatMap(({ call, bad, expected }, at) => {
    const { code, stderr } = results[at];
    const faults = [
      // Names of files may have control characters.
      code === 0 && !bad.endsWith("characters") && "accepted",
      code < 0 && "no exit code",
      expected !== undefined && code !== expected && `exit code ${code}, not ${expected}`,
      /^\s+at .*:\d+:\d+/m.test(stderr) && "a stack",
      stderr.trim() === "" && "no sentence",
      // deno-lint-ignore no-control-regex
      /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/.test(stderr) && "control characters",
      stderr.length > ERROR_MAX && `${stderr.length} characters`,
    ].filter((fault) => fault);
    const [program, ...words] = call.slice(0, 3);
    return faults.map((fault) =>
      `${program} ${words.join(" ").slice(0, 30)} ${bad}: ${fault}: ${stderr.slice(0, 200)}`
    );
  });
  assertEquals(wrong, []);
});
