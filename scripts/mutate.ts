/**
 * `make mutate`: how strong the unit tests are. Changes one random place of a noun's code at a time, in a copy of the
 * checkout, and runs that noun's tests, which should notice. The seed makes a run repeatable. Survivors are printed with
 * their line, JSON goes to `--out`.
 *
 *     deno run -A scripts/mutate.ts [--count 300] [--seed 1] [--out FILE] [NOUN…]
 */
import { parseArgs } from "@std/cli";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Mutation, mutationsOf } from "./mutation.ts";

/** Nouns whose code decides, records or forwards; each with the folders of tests that must notice. */
const NOUNS = ["policy", "gate", "net", "dns", "credential", "ledger", "gateway"];

/** Longest run of a mutated noun's tests, as a multiple of the run without a mutation: a mutation may loop for ever. */
const LIMIT = 5;
/** Least time limit in `ms`. */
const LEAST_MS = 20_000;

/** Outcome of one mutation. */
interface Outcome extends Mutation {
  noun: string;
  file: string;
  noticed: boolean;
}

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const deno = Deno.execPath();
const args = parseArgs(Deno.args, { string: ["count", "seed", "out"], default: { count: "300", seed: "1" } });
const nouns = args._.length ? args._.map(String) : NOUNS;
const random = generator(Number(args.seed));

const copy = await Deno.makeTempDir({ prefix: "mutate-" });
try {
  await copyCheckout(copy);
  const places = (await Promise.all(nouns.map(placesOf))).flat();
  const chosen = sample(places, Number(args.count));
  const limits = new Map<string, number>();
  for (const noun of nouns) {
    const started = performance.now();
    if (!await passes(noun, 600_000)) throw new Error(`the tests of ${noun} fail without a mutation`);
    limits.set(noun, Math.max(LEAST_MS, LIMIT * (performance.now() - started)));
  }
  const outcomes: Outcome[] = [];
  for (const { noun, file, mutation } of chosen) {
    const path = join(copy, file);
    const source = await Deno.readTextFile(path);
    await Deno.writeTextFile(
      path,
      source.slice(0, mutation.start) + mutation.text + source.slice(mutation.end),
    );
    const noticed = !await passes(noun, limits.get(noun)!);
    await Deno.writeTextFile(path, source);
    outcomes.push({ noun, file, ...mutation, noticed });
    console.error(
      `${outcomes.length}/${chosen.length} ${noticed ? "noticed " : "SURVIVED"} ${
        describe(outcomes.at(-1)!)
      }`,
    );
  }
  const survivors = outcomes.filter(({ noticed }) => !noticed);
  const share = (outcomes.length - survivors.length) / outcomes.length;
  if (args.out) await Deno.writeTextFile(args.out, JSON.stringify(outcomes, null, 2) + "\n");
  console.log(JSON.stringify(
    {
      mutations: outcomes.length,
      noticed: outcomes.length - survivors.length,
      share: Math.round(share * 1000) / 1000,
      survivors: survivors.map(describe),
    },
    null,
    2,
  ));
} finally {
  await Deno.remove(copy, { recursive: true });
}

/** The checkout's files, as committed or changed, with its Deno cache linked. */
async function copyCheckout(to: string): Promise<void> {
  const list = await new Deno.Command("git", {
    args: ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd: root,
  }).output();
  for (const file of new TextDecoder().decode(list.stdout).split("\0").filter(Boolean)) {
    await Deno.mkdir(join(to, dirname(file)), { recursive: true });
    await Deno.copyFile(join(root, file), join(to, file));
  }
  await Deno.symlink(join(root, ".deno"), join(to, ".deno"));
  await Deno.symlink(join(root, "bin"), join(to, "bin"));
}

interface Place {
  noun: string;
  file: string;
  mutation: Mutation;
}

async function placesOf(noun: string): Promise<Place[]> {
  const places: Place[] = [];
  for await (const file of sources(`lib/${noun}`)) {
    const source = await Deno.readTextFile(join(copy, file));
    for (const mutation of mutationsOf(source)) places.push({ noun, file, mutation });
  }
  return places;
}

async function* sources(folder: string): AsyncGenerator<string> {
  const entries = (await Array.fromAsync(Deno.readDir(join(copy, folder)))).sort((a, b) =>
    a.name < b.name ? -1 : 1
  );
  for (const { name, isDirectory } of entries) {
    if (isDirectory) yield* sources(`${folder}/${name}`);
    else if (name.endsWith(".ts") && name !== "mod.ts") yield `${folder}/${name}`;
  }
}

/** Runs the tests of a noun. @returns whether all passed within the time limit */
async function passes(noun: string, limitMs: number): Promise<boolean> {
  const paths: string[] = [];
  for (const path of [`tests/unit/${noun}/`, `tests/fuzz/${noun}_test.ts`]) {
    if (await Deno.stat(join(copy, path)).catch(() => null)) paths.push(path);
  }
  const child = new Deno.Command("timeout", {
    args: [
      "--kill-after",
      "1",
      `${limitMs / 1000}`,
      deno,
      "test",
      "--no-check",
      "-A",
      "--quiet",
      "--parallel",
      "--fail-fast",
      ...paths,
    ],
    cwd: copy,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return (await child.status).success;
}

function describe({ file, line, before, text }: Outcome): string {
  const short = (code: string) => code.replaceAll(/\s+/g, " ").slice(0, 60);
  return `${file}:${line} ${short(before)} → ${short(text) || "(nothing)"}`;
}

function sample(items: Place[], count: number): Place[] {
  const rest = [...items];
  return Array.from(
    { length: Math.min(count, items.length) },
    () => rest.splice(Math.floor(random() * rest.length), 1)[0],
  );
}

/** mulberry32. */
function generator(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
