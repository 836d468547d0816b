/** Pieces of the work of several VMs as one commit. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  changesOf,
  combine,
  type Pick,
  piecesOf,
  pullAccepted,
  pullWork,
  shownId,
  Work,
} from "../../../lib/repo/mod.ts";
import { applyHunks, parseHunks } from "../../../lib/repo/changes.ts";
import { splitHunk } from "../../../lib/repo/combine.ts";
import { git, sh, World } from "../../helper/repository.ts";

/** Work of two VMs on one repository; the second one's is of the same guest, later. */
async function twoVms(first: string, second: string) {
  const world = await World.ofRepository("seq 1 20 >n.txt; echo k >keep; echo x >gone");
  const other = `${world.room}-other`;
  await sh(world.inside, first);
  const one = await world.collect();
  await sh(world.inside, "git checkout -q -- .; git clean -qfd");
  await sh(world.room, `cp -a . ${other}`);
  await sh(world.inside, second);
  const guest = Object.assign(Object.create(world.guest), { name: "other" });
  const two = await Work.collect(guest, other);
  return {
    world,
    works: [one, two],
    async [Symbol.asyncDispose]() {
      await one[Symbol.asyncDispose]();
      await two[Symbol.asyncDispose]();
      await Deno.remove(other, { recursive: true });
      await world[Symbol.asyncDispose]();
    },
  };
}

Deno.test("pieces of two VMs become one commit, and the rest of both stays out", async () => {
  await using vms = await twoVms(
    "sed -i 's/^3$/three/; s/^9$/nine/' n.txt; echo one >new; chmod +x keep",
    "sed -i 's/^5$/five/; s/^18$/eighteen/' n.txt; echo two >new; rm gone; printf 'no end' >bin",
  );
  const { works, world } = vms;
  const picks: Pick[] = [
    { vm: "demo", path: "n.txt", pieces: [1] },
    { vm: "other", path: "n.txt", pieces: [2, 1] },
    { vm: "other", path: "new" },
    { vm: "other", path: "gone" },
    { vm: "other", path: "bin" },
    { vm: "demo", path: "keep" },
  ];
  const { accepted, others } = await combine(works, picks);
  const pulled = await pullAccepted(works[0], accepted, { branch: "picked", others });
  assertEquals(pulled.branches.map(({ branch, commits }) => [branch, commits]), [["picked", 1]]);
  const show = (path: string) => git(world.person, "show", `picked:${path}`);
  const lines = (await show("n.txt")).split("\n");
  assertEquals([lines[2], lines[4], lines[8], lines[17]], ["three", "five", "9", "eighteen"]);
  assertEquals([await show("new"), await show("bin")], ["two", "no end"]);
  const listed = await git(world.person, "ls-tree", "picked", "keep", "gone");
  assertEquals(listed.split("\n").map((line) => line.split(" ")[0]), ["100755"]);
});

Deno.test("pieces that change the same lines, and ones that are not there, are refused", async () => {
  await using vms = await twoVms(
    "sed -i 's/^3$/three/' n.txt; echo 1 >new",
    "sed -i 's/^3$/drei/' n.txt; echo 2 >new",
  );
  const codeOf = async (...picks: Pick[]) =>
    (await assertRejects(() => combine(vms.works, picks), SbxError)).code;
  const pieces = [1];
  assertEquals(
    await codeOf({ vm: "demo", path: "n.txt", pieces }, { vm: "other", path: "n.txt", pieces }),
    "repo.overlap",
  );
  assertEquals(await codeOf({ vm: "demo", path: "new" }, { vm: "other", path: "new" }), "repo.overlap");
  for (const pieces of [[2], [0]]) {
    const { code, hint } = await assertRejects(
      () => combine(vms.works, [{ vm: "demo", path: "n.txt", pieces }]),
      SbxError,
    );
    // sbx diff shows no numbers.
    assertEquals([code, hint], ["repo.no_change", "show the pieces again with --pieces, then pick"]);
  }
  assertEquals(await codeOf({ vm: "demo", path: "new", pieces }), "repo.no_change", "it is taken whole");
  assertEquals(await codeOf({ vm: "demo", path: "keep" }), "repo.no_change");
  assertEquals(await codeOf({ vm: "third", path: "new" }), "repo.no_change");
  const [one] = vms.works;
  const [{ files }] = await Promise.all(one.units.map(changesOf));
  const change = files.find(({ path }) => path === "n.txt")!;
  assertEquals((await piecesOf(one.units[0], change)).map(({ start, length }) => [start, length]), [[2, 1]]);
});

Deno.test("pieces that one file cannot have both are refused, and none is dropped or joined to the next line", async () => {
  await using vms = await twoVms(
    "seq 1 19 >n.txt; printf twenty >>n.txt; rm gone; mkdir gone; echo 1 >gone/é",
    "echo 21 >>n.txt; echo y >gone",
  );
  const pieces = [1];
  for (
    const [one, other, message] of [
      ["n.txt", "n.txt", 'two of the picked pieces of "n.txt" change the same lines'],
      ["gone/é", "gone", '"gone" is a file in one of the picks, and a folder in another'],
    ]
  ) {
    const picks = [{ vm: "demo", path: one, ...one === "n.txt" && { pieces } }, {
      vm: "other",
      path: other,
      pieces,
    }];
    const error = await assertRejects(() => combine(vms.works, picks), SbxError, message);
    assertEquals(error.code, "repo.overlap");
  }
});

Deno.test("a later piece on the same branch leaves a file as executable as an earlier one made it", async () => {
  await using vms = await twoVms(
    "sed -i 's/^3$/three/' n.txt; chmod +x n.txt",
    "sed -i 's/^18$/eighteen/' n.txt",
  );
  const { works, world } = vms;
  for (const pick of [{ vm: "demo", path: "n.txt" }, { vm: "other", path: "n.txt", pieces: [1] }]) {
    const { accepted, others } = await combine(works, [pick]);
    const { branches } = await pullAccepted(works[0], accepted, { others });
    assertEquals(branches[0].branch, "sbx/demo");
  }
  const lines = (await git(world.person, "show", "sbx/demo:n.txt")).split("\n");
  assertEquals([lines[2], lines[17]], ["three", "eighteen"]);
  assertEquals((await git(world.person, "ls-tree", "sbx/demo", "n.txt")).split(" ")[0], "100755");
});

Deno.test("a later pull of one VM leaves the branch that has pieces of another", async () => {
  await using vms = await twoVms(
    "sed -i 's/^3$/three/' n.txt; echo one >new",
    "sed -i 's/^18$/eighteen/' n.txt",
  );
  const { works: [one, two], world } = vms;
  const { accepted, others } = await combine([one, two], [
    { vm: "demo", path: "n.txt", pieces: [1] },
    { vm: "other", path: "n.txt", pieces: [1] },
  ]);
  await pullAccepted(one, accepted, { others });
  const picked = await git(world.person, "rev-parse", "sbx/demo");
  for (const paths of [[], [], ["new"]]) {
    const { branches: [{ branch }] } = await pullWork(one, { paths });
    assertEquals(branch, paths.length === 0 ? "sbx/demo-2" : "sbx/demo-3");
    const error = await assertRejects(() => pullWork(one, { paths, branch: "sbx/demo" }), SbxError);
    assertEquals([error.code, error.message], [
      "repo.branch_moved",
      'the branch "sbx/demo" has work of other too',
    ]);
  }
  assertEquals(await git(world.person, "rev-parse", "sbx/demo"), picked);
  assertEquals(await git(world.person, "show", "sbx/demo-2:new"), "one");
  // A further piece goes on top, and the branch has both VMs' work still.
  await pullAccepted(one, (await combine([one], [{ vm: "demo", path: "new" }])).accepted);
  assertEquals(await git(world.person, "rev-parse", "sbx/demo^"), picked);
  assertEquals((await pullWork(one)).branches[0].branch, "sbx/demo-2");
  // Without the branch its name is free.
  await git(world.person, "branch", "-q", "-D", "sbx/demo");
  assertEquals((await pullWork(one)).branches[0].branch, "sbx/demo");
  assertEquals((await pullWork(one)).branches[0].branch, "sbx/demo");
});

Deno.test("a pick holds for the change that was shown, and for no later one", async () => {
  await using vms = await twoVms(
    "sed -i 's/^3$/three/' n.txt",
    "sed -i 's/^1$/hidden/; s/^3$/three/; s/^18$/18/' n.txt; chmod +x keep",
  );
  const { works: [one, two] } = vms;
  const idOf = async (work: Work, path: string) =>
    shownId((await changesOf(work.units[0])).files.find((file) => file.path === path)!);
  // The same VM, later: its first piece is another one now.
  const later = Object.assign(Object.create(two), { vm: "demo" });
  const pick = { vm: "demo", path: "n.txt", pieces: [1], shown: await idOf(one, "n.txt") };
  assertEquals((await combine([one], [pick])).accepted.size, 1);
  const error = await assertRejects(() => combine([later], [pick]), SbxError);
  assertEquals(error.code, "repo.changed");
  assertEquals(await idOf(two, "keep") === await idOf(two, "n.txt"), false);
});

Deno.test("a piece of a repository that only another VM changed is taken too", async () => {
  await using world = await World.make();
  for (const name of ["web", "api"]) {
    await sh(
      world.person,
      `mkdir ${name}; cd ${name}; git init -q -b main; echo 1 >n; git add .; git commit -qm 1`,
    );
    await world.bring({ dir: `${world.person}/${name}`, place: `${world.inside}/${name}` });
  }
  const other = `${world.room}-other`;
  await sh(world.room, `cp -a . ${other}`);
  await sh(world.inside, "echo 2 >web/n");
  await using one = await world.collect();
  await sh(world.inside, "echo 1 >web/n; echo 3 >api/n");
  await using two = await Work.collect(Object.assign(Object.create(world.guest), { name: "other" }), other);
  const picks = [{ vm: "demo", path: "web/n" }, { vm: "other", path: "api/n", pieces: [1] }];
  const { accepted, others } = await combine([one, two], picks);
  const { branches } = await pullAccepted(one, accepted, { others });
  assertEquals(branches.map(({ repository, branch }) => [repository, branch]), [
    ["web", "sbx/demo"],
    ["api", "sbx/demo"],
  ]);
  assertEquals(await git(`${world.person}/api`, "show", "sbx/demo:n"), "3");
});

Deno.test("a piece without the lines around it is the same change", async () => {
  const dir = await Deno.makeTempDir();
  const cases = [
    ["1\n2\n3\n4\n5\n", "1\n2\nx\n4\n5\n"],
    ["1\n2\n3\n", "1\n2\n3\n4\n"],
    ["1\n2\n3", "0\n1\n2\n3"],
    ["1\n2\n3", "1\n2\n3\n"],
    ["1\n2\n3\n4\n5\n6", "1\n4\n5\n6"],
    ["", "1\n"],
    ["1\n", ""],
  ];
  for (const [before, after] of cases) {
    await Deno.writeTextFile(`${dir}/a`, before);
    await Deno.writeTextFile(`${dir}/b`, after);
    const hunks = parseHunks(await sh(dir, "git diff --no-index --no-color a b || :"));
    assertEquals(applyHunks(before, hunks.flatMap(splitHunk)), after, JSON.stringify([before, after]));
  }
  await Deno.remove(dir, { recursive: true });
});
