/**
 * A folder that is shared live (`--live`) against the VM's own disk, in one VM: `git status` and `npm test`
 * of the same project in both, in turns, and how long a change takes to wake a watcher on the other side.
 * Times of programs are the guest's clock. A change of the host wakes a watcher in the guest, which writes a
 * file, which wakes one on the host: the way there and back is on one clock. `SBX_BENCH_FILES` is the number
 * of tracked files, 2,000 if absent.
 */
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";

const FILES = Number(Deno.env.get("SBX_BENCH_FILES") ?? 2000);
const ROUNDS: Record<string, number> = { status: 9, status_changed: 9, npm_test: 3 };
const WAKES = 20;
/** Modules that the test run loads, and the files with tests. */
const MODULES = 100, TEST_FILES = 5;
const PER_FOLDER = 20;
const LIVE = "/workspace/project", DISK = "/root/project";

/** Measured in each place, each a line of shell in its folder. */
const STEPS: Record<string, string> = {
  status: "git status --porcelain",
  status_changed: `echo "// changed" >>src/d0/m0.js && git status --porcelain`,
  npm_test: "npm test --silent",
};

/** A project with tests that load its modules. */
async function makeProject(dir: string): Promise<void> {
  const loaded: string[] = [];
  for (let at = 0; at < FILES; at++) {
    const folder = join(dir, "src", `d${Math.floor(at / PER_FOLDER)}`);
    if (at % PER_FOLDER === 0) await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(
      join(folder, `m${at}.js`),
      `module.exports = ${at};\n${"// text\n".repeat(200)}`,
    );
    if (at < MODULES) loaded.push(`../src/d${Math.floor(at / PER_FOLDER)}/m${at}.js`);
  }
  await Deno.mkdir(join(dir, "test"));
  const share = Math.ceil(loaded.length / TEST_FILES);
  const tests: string[] = [];
  for (let at = 0; at < TEST_FILES; at++) {
    const own = loaded.slice(at * share, (at + 1) * share);
    tests.push(`./test/t${at}.js`);
    await Deno.writeTextFile(
      join(dir, `test/t${at}.js`),
      `const { test } = require("node:test");\nconst assert = require("node:assert");\n` +
        own.map((path, n) => `test("${path}", () => assert.equal(require("${path}"), ${at * share + n}));\n`)
          .join(""),
    );
  }
  await Deno.writeTextFile(
    join(dir, "test/all.js"),
    tests.map((path) => `require("${path.replace("/test", "")}");\n`).join(""),
  );
  await Deno.writeTextFile(join(dir, ".gitignore"), "woken\n");
  await Deno.writeTextFile(
    join(dir, "package.json"),
    JSON.stringify({ name: "project", version: "1.0.0", scripts: { test: "node test/all.js" } }),
  );
  for (
    const args of [["init", "-q", "-b", "main"], ["add", "."], [
      ...["-c", "user.name=P", "-c", "user.email=p@example.com"],
      ...["commit", "-qm", "first"],
    ]]
  ) {
    const { code, stderr } = await runChild("git", { args: ["-C", dir, ...args] });
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  }
}

/** Runs a script in the VM. @returns its output */
const run = (script: string) => sbx.ok("exec", "live", "-c", script);

/**
 * `ms` of a line of shell in a folder, which begins without its change of the round before. Names that are
 * kept for a second have expired by then.
 */
async function timeIn(folder: string, line: string): Promise<number> {
  return Number(
    await run(
      `set -e; cd ${folder}; git checkout -q -- .; sleep 1.5; s=$(date +%s%N); { ${line}; } >/dev/null; e=$(date +%s%N); echo $(((e - s) / 1000000))`,
    ),
  );
}

/** A watcher in the guest, which answers each change of `ping` with its content in `woken`. */
const WATCHER = `
const fs = require("fs");
fs.watch("src", () => fs.writeFileSync("woken", fs.readFileSync("src/ping")));
console.log("watching");
`;

/**
 * `ms` from a change on the host to the change that a program makes of it in the guest, as the host sees it.
 */
async function wakes(dir: string): Promise<number[]> {
  const watching = sbx.follow("exec", "live", "-c", `cd ${LIVE} && exec node -e '${WATCHER}'`);
  await watching.printed("watching");
  const watcher = Deno.watchFs(dir);
  const changes = watcher[Symbol.asyncIterator]();
  const times: number[] = [];
  try {
    for (let at = 0; at < WAKES; at++) {
      // As a person saves files: one at a time.
      await new Promise((resolve) => setTimeout(resolve, 500));
      const since = performance.now();
      await Deno.writeTextFile(join(dir, "src/ping"), String(at));
      // A watcher may be woken several times by one change.
      while (await Deno.readTextFile(join(dir, "woken")).catch(() => "") !== String(at)) await changes.next();
      times.push(performance.now() - since);
    }
  } finally {
    watcher.close();
    await watching.kill();
  }
  return times;
}

const sbx = await Sbx.make({ spare: false });
const dir = await Deno.makeTempDir();
try {
  const project = join(dir, "project");
  await Deno.mkdir(project);
  await makeProject(project);
  await sbx.ok("create", "live", "--ram", "2048", "--live", project);
  await run(`git clone -q ${LIVE} ${DISK}`);
  const times: Record<string, Record<string, number[]>> = {};
  for (const [step, line] of Object.entries(STEPS)) {
    times[step] = { disk: [], live: [] };
    for (let round = 0; round < ROUNDS[step]; round++) {
      for (const [place, folder] of [["disk", DISK], ["live", LIVE]]) {
        const ms = await timeIn(folder, line);
        times[step][place].push(ms);
        console.error(`${step} ${place}, round ${round + 1}: ${ms} ms`);
      }
    }
  }
  const woken = (await wakes(project)).map((ms) => rounded(ms, 1));
  const steps = Object.entries(times).map(([step, { disk, live }]) => {
    const [ofDisk, ofLive] = [median(disk), median(live)];
    return [step, {
      disk_ms: ofDisk,
      live_ms: ofLive,
      ratio: rounded(ofLive / ofDisk),
      target: 1.5,
      disk,
      live,
    }];
  });
  console.log(JSON.stringify({
    name: "live",
    files: FILES,
    load: rounded(Deno.loadavg()[0], 1),
    ...Object.fromEntries(steps),
    there_and_back_ms: { median: median(woken), longest: Math.max(...woken), target: 200, all: woken },
  }));
} finally {
  await sbx.dispose();
  await Deno.remove(dir, { recursive: true });
}
