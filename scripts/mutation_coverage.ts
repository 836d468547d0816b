import { join, relative } from "node:path";

/** What tests do without a mutation. */
export interface Coverage {
  /** `file:line` → test files that run it */
  lines: Map<string, Set<string>>;
  /** test file → `ms` it takes; tests that fail are not here */
  times: Map<string, number>;
}

/** What one test file does without a mutation; kept between runs while neither it nor the code changes. */
interface Known {
  /** of the test and of `lib/` */
  digest: string;
  ms: number;
  /** none for a test that fails */
  lines?: string[];
}

/**
 * Runs each test file alone and notes which lines of `lib/` it ran, so that a mutation meets only the tests that can
 * notice it. Several run at once. A test that fails already is named and left out.
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
  const code = await codeDigest(join(checkout, "lib"));
  const rest = [...tests];
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let test = rest.shift(); test; test = rest.shift()) {
      const digest = await hash(code + await Deno.readTextFile(join(checkout, test)));
      if (known[test]?.digest === digest && known[test].lines) continue;
      const started = performance.now();
      const lines = await linesOf(checkout, test);
      known[test] = { digest, ms: performance.now() - started, lines };
      if (!lines) console.error(`${test} fails without a mutation: left out`);
    }
  }));
  await Deno.writeTextFile(cache, JSON.stringify(known));
  const coverage: Coverage = { lines: new Map(), times: new Map() };
  for (const test of tests) {
    const { ms, lines } = known[test];
    if (!lines) continue;
    coverage.times.set(test, ms);
    for (const line of lines) coverage.lines.set(line, (coverage.lines.get(line) ?? new Set()).add(test));
  }
  return coverage;
}

async function codeDigest(folder: string): Promise<string> {
  let text = "";
  for (
    const { name, isDirectory } of [...Deno.readDirSync(folder)].sort((a, b) => a.name < b.name ? -1 : 1)
  ) {
    const path = join(folder, name);
    text += isDirectory ? await codeDigest(path) : name + await hash(await Deno.readTextFile(path));
  }
  return await hash(text);
}

async function hash(text: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
}

/** Lines of `lib/` that one test file runs, as `file:line`; none where it fails. */
async function linesOf(checkout: string, test: string): Promise<string[] | undefined> {
  const folder = await Deno.makeTempDir({ prefix: "mutate-coverage-" });
  try {
    const { success } = await run(checkout, [
      "test",
      "--no-check",
      "-A",
      "--quiet",
      "--coverage-raw-data-only",
      `--coverage=${folder}`,
      test,
    ]);
    if (!success) return undefined;
    const lcov = (await run(checkout, ["coverage", "--quiet", "--lcov", "--include=/lib/", folder])).text;
    const lines: string[] = [];
    let file = "";
    for (const row of lcov.split("\n")) {
      if (row.startsWith("SF:")) file = relative(checkout, row.slice(3));
      const [, line, count] = /^DA:(\d+),(\d+)/.exec(row) ?? [];
      if (Number(count) > 0) lines.push(`${file}:${line}`);
    }
    return lines;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function run(cwd: string, args: string[]): Promise<{ success: boolean; text: string }> {
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).output();
  return { success, text: new TextDecoder().decode(stdout) };
}
