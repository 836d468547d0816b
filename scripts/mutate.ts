/**
 * `make mutate`: how strong the unit tests are. Changes one random place of a noun's code at a time, in a
 * copy of the checkout, and runs the tests of that noun that reach the line, which should fail. The seed
 * makes a run repeatable. Survivors are printed with their line, JSON goes to `--out`; `--again` with such a
 * file repeats its survivors only, with more tests each; `--resume` continues a run of the same sample that
 * was stopped.
 *
 *     deno run -A scripts/mutate.ts [--count 300] [--seed 1] [--jobs 2] [--out FILE] [--again FILE] [--resume FILE] [NOUN…]
 */
import { parseArgs } from "@std/cli";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Mutation, mutationsOf } from "./mutation.ts";
import { type Coverage, coverageOf } from "./mutation_coverage.ts";
import { judge, type Verdict } from "./mutation_run.ts";

/**
 * Tests of each noun beside `tests/unit/NOUN` and `tests/fuzz/NOUN_test.ts`:
 * attacks that go through its code.
 */
const NOUNS: Record<string, string[]> = {
  policy: ["consent", "destination", "method", "passthrough", "path", "precedence", "private", "rule"].map(
    attack,
  ),
  gate: ["answer", "consent", "nesting", "rule"].map(attack),
  net: [
    "tests/fuzz/websocket_test.ts",
    ...["address", "answer", "body", "destination", "echo", "idle", "model_websocket", "oauth", "passthrough"]
      .map(attack),
    ...["budget", "long_body", "model_realtime", "path", "terminator", "websocket", "websocket_secret"].map(
      attack,
    ),
  ],
  dns: ["address", "answer"].map(attack),
  credential: ["echo", "mcp_secret", "oauth", "sink", "websocket"].map(attack),
  ledger: ["tests/unit/session/gate/fault_test.ts", attack("rule")],
  gateway: [],
  template: [],
  release: [
    attack("release_replay"),
    attack("release_forgery"),
    "tests/unit/publish/publish_test.ts",
    "tests/unit/service/standing_test.ts",
  ],
};

/** Folders of the nouns, below `lib` and `tests/unit`. */
const FOLDERS: Record<string, string> = {
  policy: "policy",
  gate: "session/gate",
  net: "network",
  dns: "network/dns",
  credential: "credential",
  ledger: "ledger",
  gateway: "client/gateway",
  template: "machine/template",
  release: "release",
};

/**
 * Tests that start the noun's code in a process of its own, where coverage cannot see
 * it: they run for each mutation.
 */
const PROCESSES: Record<string, string[]> = {
  gateway: ["tests/api/gateway_test.ts", "tests/api/gateway_stream_test.ts"],
};

/** Time on a processor of one mutation's tests without it, in `ms`: a survivor takes that long. */
const BUDGET_MS = 20_000;
/** Tests that run whatever their time. */
const LEAST_TESTS = 6;
/** Tests that run in one process: the fewer, the sooner one that does not end is late. */
const GROUP = 4;
/** Lines before and behind a mutated one. */
const NEAR = 3;

interface Place {
  noun: string;
  file: string;
  mutation: Mutation;
}

/** Outcome of one mutation. */
interface Outcome extends Mutation {
  noun: string;
  file: string;
  outcome: Verdict;
  /** whether a test runs the line at all, according to coverage */
  covered: boolean;
  /** tests' time in `ms` */
  ms: number;
}

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const args = parseArgs(Deno.args, {
  string: ["count", "seed", "out", "jobs", "again", "resume"],
  default: { count: "300", seed: "1", jobs: "2" },
});
const nouns = args._.length ? args._.map(String) : Object.keys(NOUNS);
const jobs = Number(args.jobs);
const random = generator(Number(args.seed));

const copies = await Promise.all(
  Array.from({ length: jobs }, () => Deno.makeTempDir({ prefix: "mutate-" })),
);
try {
  await Promise.all(copies.map(copyCheckout));
  const places = (await Promise.all(nouns.map(placesOf))).flat();
  const chosen = args.again ? survivorsOf(args.again, places) : sample(places, Number(args.count));
  const tests: Map<string, string[]> = new Map(
    await Promise.all(nouns.map(async (noun: string) => [noun, await testsOf(noun)] as const)),
  );
  const all = [...tests.values(), ...nouns.map((noun: string) => PROCESSES[noun] ?? [])].flat();
  const coverage = await coverageOf(
    copies[0],
    [...new Set(all)].sort(),
    jobs,
    join(root, ".deno", "mutate.json"),
  );
  const outcomes: Outcome[] = args.resume ? JSON.parse(await Deno.readTextFile(args.resume)) : [];
  const done = new Set(outcomes.map((each) => keyOf(each.file, each)));
  const rest = chosen.filter(({ file, mutation }) => !done.has(keyOf(file, mutation)));
  await Promise.all(copies.map(async (copy) => {
    for (let place = rest.shift(); place; place = rest.shift()) {
      outcomes.push(await attempt(copy, place, tests.get(place.noun)!, coverage));
      const last = outcomes.at(-1)!;
      console.error(`${outcomes.length}/${chosen.length} ${last.outcome} ${last.ms} ms ${describe(last)}`);
      if (args.out) await Deno.writeTextFile(args.out, JSON.stringify(outcomes, null, 2) + "\n");
    }
  }));
  const count = (outcome: Outcome["outcome"]) => outcomes.filter((each) => each.outcome === outcome).length;
  console.log(JSON.stringify(
    {
      seed: Number(args.seed),
      mutations: outcomes.length,
      noticed: outcomes.length - count("survived"),
      timeouts: count("timeout"),
      share: Math.round((1 - count("survived") / outcomes.length) * 1000) / 1000,
      survivors: outcomes.filter(({ outcome }) => outcome === "survived").map(describe).sort(),
    },
    null,
    2,
  ));
} finally {
  await Promise.all(copies.map((copy) => Deno.remove(copy, { recursive: true })));
}

/**
 * Runs the tests that reach a mutated line; all of the noun's where none is known to, for code in workers.
 */
async function attempt(copy: string, place: Place, known: string[], coverage: Coverage): Promise<Outcome> {
  const { noun, file, mutation } = place;
  const passing = known.filter((test) => coverage.times.has(test));
  const reaching = passing.filter((test) => reaches(coverage, test, file, mutation.line));
  const others = (PROCESSES[noun] ?? []).filter((test) => coverage.times.has(test));
  const first = reaching.length || others.length ? closest(file, reaching, coverage) : passing;
  const path = join(copy, file);
  const source = await Deno.readTextFile(path);
  const mutated = source.slice(0, mutation.start) + mutation.text + source.slice(mutation.end);
  const original = async <T>(run: () => Promise<T>) => {
    await Deno.writeTextFile(path, source);
    const result = await run();
    await Deno.writeTextFile(path, mutated);
    return result;
  };
  const started = performance.now();
  await Deno.writeTextFile(path, mutated);
  let outcome: Verdict = "survived";
  const tests = [...first, ...others];
  while (outcome === "survived" && tests.length > 0) {
    const group = tests.splice(0, GROUP);
    const expectedMs = group.reduce((sum, test) => sum + coverage.times.get(test)!.ms, 0);
    outcome = await judge(copy, group, expectedMs, original);
  }
  await Deno.writeTextFile(path, source);
  return {
    noun,
    file,
    ...mutation,
    outcome,
    covered: reaching.length > 0,
    ms: Math.round(performance.now() - started),
  };
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

async function placesOf(noun: string): Promise<Place[]> {
  const places: Place[] = [];
  for await (const file of sources(`lib/${FOLDERS[noun]}`)) {
    const source = await Deno.readTextFile(join(copies[0], file));
    for (const mutation of mutationsOf(source)) places.push({ noun, file, mutation });
  }
  return places;
}

async function* sources(folder: string): AsyncGenerator<string> {
  const entries = (await Array.fromAsync(Deno.readDir(join(copies[0], folder)))).sort((a, b) =>
    a.name < b.name ? -1 : 1
  );
  for (const { name, isDirectory } of entries) {
    // A noun's folder may lie in another one's.
    if (Object.values(FOLDERS).some((each) => `${folder}/${name}`.endsWith(`/${each}`))) continue;
    if (isDirectory) yield* sources(`${folder}/${name}`);
    else if (name.endsWith(".ts") && name !== "mod.ts") yield `${folder}/${name}`;
  }
}

/**
 * A line counts as not run if a part of it is not, such as a return behind its condition: nearby lines count.
 */
function reaches({ lines }: Coverage, test: string, file: string, line: number): boolean {
  for (let near = line - NEAR; near <= line + NEAR; near++) {
    if (lines.get(`${file}:${near}`)?.has(test)) return true;
  }
  return false;
}

/**
 * Tests that run most of a file in their time, up to {@linkcode BUDGET_MS}, and
 * {@linkcode LEAST_TESTS} at least.
 */
function closest(file: string, tests: string[], { lines, times }: Coverage): string[] {
  const counts = new Map(tests.map((test) => [test, 0]));
  for (const [line, runs] of lines) {
    if (!line.startsWith(`${file}:`)) continue;
    for (const test of tests) if (runs.has(test)) counts.set(test, counts.get(test)! + 1);
  }
  const cost = (test: string) => times.get(test)!.cpuMs;
  const rate = (test: string) => counts.get(test)! / cost(test);
  let spent = 0;
  return tests.toSorted((a, b) => rate(b) - rate(a))
    .filter((test, index) => {
      const fits = index < LEAST_TESTS || spent + cost(test) <= (args.again ? 2 : 1) * BUDGET_MS;
      if (fits) spent += cost(test);
      return fits;
    });
}

/** Test files of a noun. */
async function testsOf(noun: string): Promise<string[]> {
  const files = (await Array.fromAsync(sources(`tests/unit/${FOLDERS[noun]}`))).filter((file) =>
    file.endsWith("_test.ts")
  );
  const others = [`tests/fuzz/${noun}_test.ts`, ...NOUNS[noun]];
  for (const file of others) if (await Deno.stat(join(copies[0], file)).catch(() => null)) files.push(file);
  return files;
}

function describe({ file, line, before, text }: Outcome): string {
  const short = (code: string) => code.replaceAll(/\s+/g, " ").slice(0, 60);
  return `${file}:${line} ${short(before)} → ${short(text) || "(nothing)"}`;
}

function attack(name: string): string {
  return `tests/attack/host/${name}_test.ts`;
}

/** Places of the survivors of an earlier run. */
function survivorsOf(out: string, places: Place[]): Place[] {
  const outcomes: Outcome[] = JSON.parse(Deno.readTextFileSync(out));
  const keys = new Set(
    outcomes.filter(({ outcome }) => outcome === "survived").map((each) => keyOf(each.file, each)),
  );
  return places.filter(({ file, mutation }) => keys.has(keyOf(file, mutation)));
}

function keyOf(file: string, { start, end, text }: Mutation): string {
  return `${file} ${start} ${end} ${text}`;
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
