/**
 * 1,000 programs in a VM that wait for a rule which restricts programs, beside the same without such a
 * rule. Medians of paired rounds.
 */
import { Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";

const PROGRAMS = 1000;
const ROUNDS = 7;
const TARGET = 2;
const rule = (match: string) => `
[profiles.rules.no-such-program]
action = "block"
match = '${match}'
`;
/** Rules by which the file of a program decides, and those by which its arguments do. */
const RULES = {
  floor: "",
  value: rule('process.activity.executable == "no-such-program"'),
  arguments: rule('process.activity.command == "no-such-program"'),
};
/** Prints the `ms`. */
const SCRIPT =
  `from=$EPOCHREALTIME; for ((i = 0; i < ${PROGRAMS}; i++)); do /bin/true || exit 1; done; to=$EPOCHREALTIME; ` +
  "echo $(( (${to/./} - ${from/./}) / 1000 ))";

const sbx = await Sbx.make({ spare: false });
try {
  await sbx.ok("profile", "copy", "code", "mine");
  const profile = `${sbx.home}/profiles/mine/profile.toml`;
  const text = await Deno.readTextFile(profile);
  await sbx.ok("create", "dev", "--profile", "mine");
  const times = { floor: [] as number[], value: [] as number[], arguments: [] as number[] };
  const run = async () => Number(await sbx.ok("exec", "dev", "--", "bash", "-c", SCRIPT));
  await run();
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of ["floor", "value", "arguments"] as const) {
      await Deno.writeTextFile(profile, text + RULES[name]);
      await sbx.ok("policy", "reload", "dev");
      await sbx.ok("exec", "dev", "--", "sleep", "1");
      times[name].push(await run());
    }
  }
  const ratio = (values: number[]) =>
    rounded(median(values.map((value, round) => value / times.floor[round])));
  console.log(JSON.stringify({
    name: "hold",
    unit: `ms for ${PROGRAMS} programs`,
    target: `<= ${TARGET}`,
    floor: median(times.floor),
    value: median(times.value),
    ratio: ratio(times.value),
    arguments: { value: median(times.arguments), ratio: ratio(times.arguments) },
    rounds: ROUNDS,
  }));
} finally {
  await sbx.dispose();
}
