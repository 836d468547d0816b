import { dirname, join, relative } from "node:path";
import { runTests } from "./mutation_run.ts";

/** What tests do without a mutation. */
export interface Coverage {
  /** `file:line` → test files that run it */
  lines: Map<string, Set<string>>;
  /** test file → its time; tests that fail are not here */
  times: Map<string, TestTime>;
}

/** Time that one test file takes alone, in `ms`: from start to end, and on a processor. */
export interface TestTime {
  ms: number;
  cpuMs: number;
}

/**
 * What one test file does without a mutation; kept between runs while neither it nor
 * the folders that it runs change.
 */
interface Known extends TestTime {
  /** of the test and of those folders */
  digest: string;
  /** none for a test that fails */
  lines?: string[];
}

/**
 * Runs each test file alone and notes which lines of `lib/` it ran, so that a mutation meets only the tests
 * that can notice it. Several run at once. A test that fails already is named and left out.
 *
 * @param checkout folder of the checkout
 * @param tests test files, relative to it
 * @param jobs tests that run at once
 * @param cache file of what earlier runs learned
 */
export async function coverageOf(
  checkout: string,
  tests: string[],
  jobs: number,
  cache: string,
): Promise<Coverage> {
  const known: Record<string, Known> = JSON.parse(await Deno.readTextFile(cache).catch(() => "{}"));
  const rest = [...tests];
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let test = rest.shift(); test; test = rest.shift()) {
      const { cpuMs, digest, lines } = known[test] ?? {};
      if (cpuMs && lines && digest === await digestOf(checkout, test, lines)) continue;
      const measured = await measure(checkout, test);
      known[test] = { digest: await digestOf(checkout, test, measured.lines), ...measured };
      if (!known[test].lines) console.error(`${test} fails without a mutation: left out`);
    }
  }));
  await Deno.writeTextFile(cache, JSON.stringify(known));
  const coverage: Coverage = { lines: new Map(), times: new Map() };
  for (const test of tests) {
    const { ms, cpuMs, lines } = known[test];
    if (!lines) continue;
    coverage.times.set(test, { ms, cpuMs });
    for (const line of lines) coverage.lines.set(line, (coverage.lines.get(line) ?? new Set()).add(test));
  }
  return coverage;
}

/**
 * Digest of a test and of all code beside the lines that it runs: also of a
 * worker's, which coverage does not see.
 */
async function digestOf(checkout: string, test: string, lines: string[] = []): Promise<string> {
  let text = await Deno.readTextFile(join(checkout, test));
  for (const folder of [...new Set(lines.map(dirname))].sort()) {
    text += await folderDigest(join(checkout, folder));
  }
  return await hash(text);
}

const folderDigests = new Map<string, Promise<string>>();

/** Digest of the files of a folder, which may be gone. */
function folderDigest(folder: string): Promise<string> {
  const digest = folderDigests.get(folder) ?? readFolder(folder);
  folderDigests.set(folder, digest);
  return digest;
}

async function readFolder(folder: string): Promise<string> {
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  const names = entries.filter(({ isFile }) => isFile).map(({ name }) => name).sort();
  const texts = await Promise.all(names.map((name) => Deno.readTextFile(join(folder, name))));
  return await hash(JSON.stringify([names, texts]));
}

async function hash(text: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
}

/** Time of one test file and the lines of `lib/` that it runs, as `file:line`; none where it fails. */
async function measure(checkout: string, test: string): Promise<TestTime & { lines?: string[] }> {
  const folder = await Deno.makeTempDir({ prefix: "mutate-coverage-" });
  try {
    const options = ["--coverage-raw-data-only", `--coverage=${folder}`];
    const { outcome, ms, cpuMs = ms } = await runTests(checkout, [test], undefined, options);
    return { ms, cpuMs, lines: outcome === "passed" ? await linesIn(checkout, folder) : undefined };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Lines that a folder of coverage names as run. */
async function linesIn(checkout: string, folder: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["coverage", "--quiet", "--lcov", "--include=/lib/", folder],
    cwd: checkout,
    stdin: "null",
    stderr: "null",
  }).output();
  const lines: string[] = [];
  let file = "";
  for (const row of new TextDecoder().decode(stdout).split("\n")) {
    if (row.startsWith("SF:")) file = relative(checkout, row.slice(3));
    const [, line, count] = /^DA:(\d+),(\d+)/.exec(row) ?? [];
    if (Number(count) > 0) lines.push(`${file}:${line}`);
  }
  return lines;
}
