/** Pieces of a change that a person accepted one by one. */
import { assertEquals } from "@std/assert";
import { reviewWork } from "../../../cmd/sbx/files/review.ts";
import { changesOf, entryOf, hunksOf, patchOfFile, pullAccepted, shown } from "../../../lib/repo/mod.ts";
import { applyHunks, parseHunks } from "../../../lib/repo/changes.ts";
import { git, run, sh, World } from "../../helper/repository.ts";
import { Random } from "../../helper/random.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}\n`);

Deno.test("any subset of hunks gives what git apply makes of it", async () => {
  const dir = await Deno.makeTempDir();
  const random = new Random(7);
  const next = () => random.below(1000) / 1000;
  for (let round = 0; round < 25; round++) {
    const before = numbers(60);
    const after = before.flatMap((line) => {
      const chance = next();
      return chance < 0.04 ? [] : chance < 0.08 ? [line, "added\n"] : chance < 0.1 ? ["changed\n"] : [line];
    });
    if (round % 3 === 0) after[after.length - 1] = "no line feed";
    if (round % 5 === 0) before[before.length - 1] = "none before";
    await Deno.writeTextFile(`${dir}/a`, before.join(""));
    await Deno.writeTextFile(`${dir}/b`, after.join(""));
    const patch = await sh(dir, "git diff --no-index --no-color a b || :");
    const hunks = parseHunks(patch);
    assertEquals(applyHunks(before.join(""), hunks), after.join(""));
    assertEquals(applyHunks(before.join(""), []), before.join(""));
    const some = hunks.filter(() => next() < 0.5);
    if (some.length === 0) continue;
    const lines = some.flatMap(({ lines }) => lines).join("\n");
    await Deno.writeTextFile(`${dir}/p`, `--- a/a\n+++ b/a\n${lines}\n`);
    await run(dir, "git", ["apply", "--unidiff-zero", "p"]);
    assertEquals(applyHunks(before.join(""), some), await Deno.readTextFile(`${dir}/a`));
  }
  await Deno.remove(dir, { recursive: true });
});

Deno.test("what is accepted becomes one commit, and the rest stays out", async () => {
  await using world = await World.ofRepository("seq 1 100 >n.txt; echo x >gone.txt; echo k >keep.txt");
  await sh(
    world.inside,
    "sed -i 's/^5$/five/; s/^50$/fifty/; s/^95$/ninety/' n.txt; rm gone.txt keep.txt; echo new >z.txt",
  );
  await using work = await world.collect();
  // gone.txt, keep.txt, the pieces of n.txt, z.txt
  const answers = ["y", "n", "y", "?", "n", "y", "q"];
  const { accepted, pieces } = await reviewWork(work, () => answers.shift());
  assertEquals([pieces, answers], [{ accepted: 3, all: 6 }, []]);
  await pullAccepted(work, accepted);
  assertEquals(await git(world.person, "diff", "--name-status", "main", "sbx/demo"), "D\tgone.txt\nM\tn.txt");
  assertEquals(
    await git(world.person, "diff", "-U0", "--no-color", "main", "sbx/demo", "--", "n.txt").then((text) =>
      text.split("\n").filter((line) => /^[-+]\w/.test(line))
    ),
    ["-5", "+five", "-95", "+ninety"],
  );
});

Deno.test("each piece that is shown is of the file that is taken, whatever the names", async () => {
  const bom = "\\357\\273\\277";
  await using world = await World.ofRepository(
    `seq 9 >m.txt; seq 9 >$(printf '${bom}m.txt'); seq 9 >$(printf 'm\\377'); seq 9 >$(printf 'm\\357\\277\\275')`,
  );
  await sh(
    world.inside,
    `sed -i s/5/harmless/ m.txt; sed -i s/5/bom/ $(printf '${bom}m.txt'); sed -i s/5/byte/ $(printf 'm\\377')
    sed -i s/5/harmless/ $(printf 'm\\357\\277\\275'); echo evil >$(printf '${bom}n.txt'); echo harmless >n.txt`,
  );
  await using work = await world.collect();
  const [unit] = work.units;
  const { files } = await changesOf(unit);
  const seen = await Promise.all(files.map(async (change) => {
    const text = (await hunksOf(unit, change)).flatMap(({ lines }) => lines).join("\n") ||
      await patchOfFile(unit, change);
    return [shown(change.path), /^\+(\w+)$/m.exec(text)?.[1]];
  }));
  assertEquals(seen, [
    ["m.txt", "harmless"],
    ["m\ufffd", "harmless"],
    ["m\\xff", undefined],
    ["n.txt", "harmless"],
    ["\ufffdm.txt", "bom"],
    ["\ufffdn.txt", "evil"],
  ]);
});

/** Accepts the piece that some line is in, or the whole of a file. */
async function take(world: World, path: string, line?: string, message?: string): Promise<string> {
  await using work = await world.collect();
  const [unit] = work.units;
  const change = (await changesOf(unit)).files.find((file) => file.path === path)!;
  const pieces = line === undefined
    ? "all"
    : (await hunksOf(unit, change)).filter(({ lines }) => lines.includes(line));
  const entries = [await entryOf(unit, change, pieces)];
  const { branches } = await pullAccepted(work, new Map([[unit, entries]]), { message });
  return branches[0].branch;
}

const subjects = (world: World, branch: string) => git(world.person, "log", "--format=%s", `main..${branch}`);

Deno.test("later pieces go on top of earlier ones, on the same branch", async () => {
  await using world = await World.ofRepository("seq 1 100 >n.txt; echo k >keep.txt; echo x >gone.txt");
  await sh(
    world.inside,
    "sed -i 's/^5$/five/; s/^50$/fifty/; s/^95$/ninety/' n.txt; echo new >z.txt; rm gone.txt",
  );
  await git(world.person, "config", "user.name", "P");
  await git(world.person, "config", "user.email", "p@example.com");
  assertEquals(await take(world, "n.txt", "+five"), "sbx/demo");
  assertEquals(await take(world, "n.txt", "+ninety", "the end"), "sbx/demo");
  assertEquals(await take(world, "z.txt"), "sbx/demo");
  assertEquals(await take(world, "gone.txt"), "sbx/demo");
  const branch = "sbx/demo";
  const numbers = await git(world.person, "show", `${branch}:n.txt`).then((text) => text.split("\n"));
  assertEquals([numbers[4], numbers[49], numbers[94]], ["five", "50", "ninety"]);
  assertEquals(
    await git(world.person, "diff", "--name-status", "main", branch),
    "D\tgone.txt\nM\tn.txt\nA\tz.txt",
  );
  assertEquals(
    await subjects(world, branch),
    ["Work of demo", "Work of demo", "the end", "Work of demo"].join("\n"),
  );
  // Once more is nothing new; the whole file is as the VM has it.
  const before = await git(world.person, "rev-parse", branch);
  assertEquals(await take(world, "n.txt", "+ninety"), branch);
  assertEquals(await git(world.person, "rev-parse", branch), before);
  await sh(world.inside, "sed -i 's/^five$/FIVE/' n.txt");
  assertEquals(await take(world, "n.txt"), branch);
  assertEquals(
    await git(world.person, "show", `${branch}:n.txt`),
    (await Deno.readTextFile(`${world.inside}/n.txt`)).trimEnd(),
  );
  assertEquals(await git(world.person, "branch", "--list", "sbx/*", "--format=%(refname:short)"), branch);
});

Deno.test("pieces that do not go on top of the earlier branch get one of their own", async () => {
  await using world = await World.ofRepository("seq 1 100 >n.txt; echo k >keep.txt");
  await sh(world.inside, "sed -i 's/^5$/five/; s/^95$/ninety/' n.txt; echo new >keep.txt; echo new >z.txt");
  assertEquals(await take(world, "n.txt", "+five"), "sbx/demo");
  // The same lines, changed again since.
  await sh(world.inside, "sed -i 's/^five$/FIVE/' n.txt");
  assertEquals(await take(world, "n.txt", "+FIVE"), "sbx/demo-2");
  // Checked out by its person.
  await git(world.person, "checkout", "-q", "sbx/demo");
  assertEquals(await take(world, "z.txt"), "sbx/demo-3");
  // With a commit of its person.
  await sh(world.person, "echo mine >mine.txt; git add -A; git commit -qm mine; git checkout -q main");
  assertEquals(await take(world, "keep.txt"), "sbx/demo-4");
  assertEquals(await git(world.person, "show", "sbx/demo:mine.txt"), "mine");
  assertEquals((await subjects(world, "sbx/demo")).split("\n"), ["mine", "Work of demo"]);
});
