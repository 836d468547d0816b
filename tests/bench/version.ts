/**
 * Time of `sbx version`, beside an empty program under the same Deno (the floor). Both are started in turn,
 * so that what else the machine does meets both.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROUNDS = 40;
const main = fileURLToPath(import.meta.resolve("../../main.ts"));
const config = fileURLToPath(import.meta.resolve("../../deno.json"));

async function time(args: string[]): Promise<number> {
  const began = performance.now();
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--cached-only", "--config", config, ...args],
    stdout: "null",
  }).output();
  if (code !== 0) throw new Error(`exit code ${code}`);
  return performance.now() - began;
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

const dir = await Deno.makeTempDir();
try {
  const empty = join(dir, "empty.ts");
  await Deno.writeTextFile(empty, "");
  const programs = [[empty], [main, "version"]];
  for (const program of programs) await time(program);
  const times: number[][] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, program] of programs.entries()) times[at].push(await time(program));
  }
  const [floor, value] = times.map(median);
  console.log(JSON.stringify({
    name: "version",
    unit: "ms",
    ratio: Number((value / floor).toFixed(2)),
    target: "<= 1.5",
    floor: Number(floor.toFixed(1)),
    value: Number(value.toFixed(1)),
  }));
} finally {
  await Deno.remove(dir, { recursive: true });
}
