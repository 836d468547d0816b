/**
 * 1,000 files that a program in a VM opens: while rules on files hold them, by what the rules say, and
 * without such a rule. Medians of paired rounds. Prints one JSON object.
 */
import { Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";

const FILES = 1000;
const ROUNDS = 7;
const rule = (match: string) => `
[profiles.rules.no-such-file]
action = "block"
match = '${match}'
`;
/**
 * Rules that mean none of the files, those that mean any until the host has answered, and
 * those that depend on the program.
 */
const RULES = {
  floor: "",
  others: rule('file.activity.name == "no-such-file"'),
  any: rule('file.activity.operation == "write" && !file.activity.path.startsWith("/")'),
  each: rule('file.activity.path.endsWith("0") && common.process.executable == "no-such-program"'),
};
type Name = keyof typeof RULES;
/** Opens files of its own, and files of the system that it has opened before, and prints the `ms` of both. */
const SCRIPT = `
import os, time
os.makedirs("/root/files", exist_ok=True)
names = [f"/root/files/{at}0" for at in range(${FILES})]
for name in names: open(name, "a").close()
system = [os.path.join(at, name) for at, _, names in os.walk("/usr/lib/python3.13") for name in names][:${FILES}]
def opened(names):
  began = time.monotonic()
  for name in names: os.close(os.open(name, os.O_RDONLY))
  return round((time.monotonic() - began) * 1000)
opened(system)
print(opened(names), opened(system), len(system))
`;

const sbx = await Sbx.make({ spare: false });
try {
  await sbx.ok("profile", "copy", "code", "mine");
  const profile = `${sbx.home}/profiles/mine/profile.toml`;
  const text = await Deno.readTextFile(profile);
  await sbx.ok("create", "dev", "--profile", "mine");
  const empty = (): Record<Name, number[]> => ({ floor: [], others: [], any: [], each: [] });
  const own = empty(), system = empty();
  const run = async () => (await sbx.ok("exec", "dev", "--", "python3", "-c", SCRIPT)).split(" ").map(Number);
  await run();
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of Object.keys(RULES) as Name[]) {
      await Deno.writeTextFile(profile, text + RULES[name]);
      await sbx.ok("policy", "reload", "dev");
      await sbx.ok("exec", "dev", "--", "sleep", "1");
      const [ownMs, systemMs, systemFiles] = await run();
      if (systemFiles < FILES) throw new Error(`the system has ${systemFiles} files only`);
      own[name].push(ownMs);
      system[name].push(systemMs);
    }
  }
  const measured = (times: Record<Name, number[]>) => {
    const ratio = (name: Name) => rounded(median(times[name].map((ms, round) => ms / times.floor[round])));
    return Object.fromEntries(
      (Object.keys(times) as Name[]).map((name) => [name, { ms: median(times[name]), ratio: ratio(name) }]),
    );
  };
  console.log(JSON.stringify({
    name: "open",
    unit: `ms for ${FILES} files`,
    own: measured(own),
    system: measured(system),
    rounds: ROUNDS,
  }));
} finally {
  await sbx.dispose();
}
