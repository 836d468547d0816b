/**
 * 20 copies of one VM judge 20 patches, by the example of each SDK, beside 20 VMs that are made for one patch
 * each, from a template and by booting. Each way keeps its time and memory (docs/guides/scale.md has
 * the figures of one run). COUNT=N judges fewer, FILTER=text runs one way.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { Client, Sandbox } from "../../sdk/typescript/src/mod.ts";
import { runChild } from "../helper/child.ts";
import { keepFigures } from "../helper/figures.ts";
import { proportionalMb } from "../helper/process_memory.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { rounded } from "../helper/statistics.ts";

const PATCHES = Number(Deno.env.get("COUNT") ?? 20);
const AT_ONCE = 4;
/** Time limit of one way to judge all patches, in `ms`. */
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

/** A repository, patches of which every second one is right, and an sbx that judges them. */
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

Deno.test(`${PATCHES} VMs from a template judge ${PATCHES} patches`, () =>
  measured("from_template", oneEach));

Deno.test(`${PATCHES} VMs that boot judge ${PATCHES} patches`, () => measured("booted", oneEach, false));

/** A VM for each patch. */
async function oneEach({ sbx, repo, patches, right }: Bench): Promise<void> {
  await using client = await Client.connect({ home: sbx.home });
  const left = [...patches];
  let passed = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let path = left.shift(); path !== undefined; path = left.shift()) {
      await using vm = await Sandbox.create({
        client,
        repo: { dir: repo, place: "/workspace/repo" },
        ramMb: 512,
      });
      await vm.files.write("/workspace/change.patch", await Deno.readFile(path));
      const judge = `git apply /workspace/change.patch && ${TEST}`;
      const { exitCode } = await vm.exec(["sh", "-c", judge], { cwd: "/workspace/repo" });
      if (exitCode === 0) passed++;
    }
  }));
  assertEquals(passed, right);
}

/** Runs one way in a home of its own, and keeps its seconds and the most memory of its machines. */
async function measured(
  way: string,
  work: (bench: Bench) => Promise<void>,
  hasTemplate = true,
): Promise<void> {
  const sbx = await Sbx.make({ spare: false });
  const place = await Deno.makeTempDir({ prefix: "sbx-evaluation-" });
  try {
    const [repo, patches] = await makePatches(place);
    await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", String(AT_ONCE + 1));
    if (!hasTemplate) await sbx.ok("settings", "set", "vm.templates.enabled", "false");
    await sbx.ok("start");
    // A template is made once, and is no part of the comparison.
    await sbx.ok("run", "--ram", "512M", "--", "true");
    if (hasTemplate) {
      await eventually("there is a template", async () => {
        const { templates } = JSON.parse(await sbx.ok("template", "list", "--json"));
        return templates.some(({ ram_mb }: { ram_mb: number }) => ram_mb === 512);
      });
    }
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
