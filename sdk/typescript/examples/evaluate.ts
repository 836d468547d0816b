/**
 * N copies of one VM judge N patches by a test suite: one line of JSON each, and the number that passed.
 *
 *     node --experimental-strip-types evaluate.ts REPO "TEST COMMAND" PATCH…
 */
import { readFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { Sandbox } from "../src/mod.ts";

/** VMs at once; the sbx has a limit of its own (vm.resources.max_concurrent_vms). */
const AT_ONCE = Number(process.env.AT_ONCE ?? 4);
/** Seconds of one run of the tests. */
const TEST_SECONDS = 600;

const [repo, test, ...patches] = process.argv.slice(2);
if (repo === undefined || test === undefined || patches.length === 0) {
  console.error("usage: evaluate.ts REPO TEST PATCH…");
  process.exit(2);
}

await using base = await Sandbox.create({
  repo: { dir: resolve(repo), place: "/workspace/repo" },
  ramMb: 512,
});
const { id: at } = await base.snapshot("before the patches");
const passed: string[] = [];

for (let first = 0; first < patches.length; first += AT_ONCE) {
  const batch = patches.slice(first, first + AT_ONCE);
  const begun = performance.now();
  const copies = await base.fork({ count: batch.length, at });
  const forkedMs = Math.round(performance.now() - begun);
  try {
    await Promise.all(copies.map((copy, index) => judge(copy, batch[index]!, forkedMs)));
  } finally {
    await Promise.all(copies.map((copy) => copy[Symbol.asyncDispose]()));
  }
}
console.error(`${passed.length} of ${patches.length} passed: ${passed.join(", ")}`);

async function judge(vm: Sandbox, path: string, forkedMs: number): Promise<void> {
  await vm.files.write("/workspace/change.patch", await readFile(path));
  const applied = await vm.exec(["git", "apply", "/workspace/change.patch"], { cwd: "/workspace/repo" });
  const ran = applied.exitCode === 0
    ? await vm.exec(["sh", "-c", test!], { cwd: "/workspace/repo", timeout: TEST_SECONDS })
    : applied;
  if (ran.exitCode === 0) passed.push(basename(path));
  const { models } = await vm.costs();
  const result = { patch: basename(path), exit_code: ran.exitCode, ms: ran.durationMs, forked_ms: forkedMs };
  console.log(JSON.stringify({ ...result, model_calls: models.length, event: ran.eventId, session: vm.id }));
}
