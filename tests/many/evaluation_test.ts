/**
 * 20 copies of one VM judge 20 patches, by the example of each SDK, and keep their time and memory
 * (docs/guides/scale.md has the figures of one run). COUNT=N judges fewer, FILTER=Python runs one.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { keepFigures } from "../helper/figures.ts";
import { proportionalMb } from "../helper/process_memory.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";
import { rounded } from "../helper/statistics.ts";

const PATCHES = Number(Deno.env.get("COUNT") ?? 20);
const AT_ONCE = 4;
/** Time limit of one example in `ms`. */
const LIMIT_MS = 3_600_000;
const TEST = 'test "$(cat answer)" = 2';

/** The examples of both SDKs. */
const EXAMPLES: [name: string, program: string, args: string[]][] = [
  ["TypeScript", Deno.execPath(), [
    "run",
    "-A",
    "--quiet",
    "--no-config",
    "sdk/typescript/examples/evaluate.ts",
  ]],
  ["Python", "python3", ["sdk/python/examples/evaluate.py"]],
];

/** A repository, patches of which every second one is right, and an sbx in which they are judged. */
interface Bench {
  sbx: Sbx;
  repo: string;
  patches: string[];
  right: number;
}

for (const [name, program, args] of EXAMPLES) {
  Deno.test(`${PATCHES} copies of one VM judge ${PATCHES} patches: ${name}`, () =>
    measured(`copies_${name.toLowerCase()}`, async ({ sbx, repo, patches, right }) => {
      const { code, stderr } = await runChild(program, {
        args: [...args, repo, TEST, ...patches],
        cwd: fromRoot(""),
        env: {
          ...sbx.env,
          AT_ONCE: String(AT_ONCE),
          PYTHONPATH: fromRoot("sdk/python/src"),
          PYTHONDONTWRITEBYTECODE: "1",
        },
      }, LIMIT_MS);
      const errors = new TextDecoder().decode(stderr);
      assertEquals(code, 0, errors);
      assertStringIncludes(errors, `${right} of ${PATCHES} passed`);
    }));
}

/** Runs one way in a home of its own, and keeps its seconds and the most memory of its machines. */
async function measured(way: string, work: (bench: Bench) => Promise<void>): Promise<void> {
  const sbx = await Sbx.make({ spare: false });
  const place = await Deno.makeTempDir({ prefix: "sbx-evaluation-" });
  try {
    const [repo, patches] = await makePatches(place);
    await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", String(AT_ONCE + 1));
    await sbx.ok("start");
    // A template is made once, and is no part of the comparison.
    await sbx.ok("run", "--ram", "512M", "--", "true");
    let [most, isOver] = [0, false];
    const looks = (async () => {
      while (!isOver) {
        most = Math.max(most, await proportionalMb(await sbx.pids("qemu-system", sbx.home)));
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    })();
    const began = performance.now();
    try {
      await work({ sbx, repo, patches, right: Math.ceil(PATCHES / 2) });
    } finally {
      isOver = true;
      await looks;
    }
    const seconds = rounded((performance.now() - began) / 1000, 1);
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, []);
    await keepFigures(`evaluation_${way}`, {
      patches: PATCHES,
      at_once: AT_ONCE,
      seconds,
      resident_mb: rounded(most, 0),
      load: Deno.loadavg().map((value) => rounded(value, 1)),
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(place, { recursive: true });
  }
}

async function makePatches(place: string): Promise<[repo: string, patches: string[]]> {
  const repo = join(place, "repo");
  await Deno.mkdir(repo);
  await Deno.writeTextFile(join(repo, "answer"), "1\n");
  for (const args of [["init", "-q"], ["add", "."], ["commit", "-qm", "one"]]) {
    const author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    assertEquals((await runChild("git", { args: ["-C", repo, ...author, ...args] })).code, 0);
  }
  const patches = await Promise.all(Array.from({ length: PATCHES }, async (_, at) => {
    const path = join(place, `${String(at).padStart(2, "0")}.patch`);
    const change = `--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-1\n+${at % 2 === 0 ? 2 : 3}\n`;
    await Deno.writeTextFile(path, change);
    return path;
  }));
  return [repo, patches];
}
