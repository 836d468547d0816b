/** Pulls with a message, as one commit, and to the person's files. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { describePulled } from "../../../cmd/sbx/files/repository.ts";
import { entriesOf } from "../../../lib/repo/land.ts";
import { applyWork, pullAccepted, type PullOptions, pullWork, untakenOf } from "../../../lib/repo/mod.ts";
import { git, listing, sh, World } from "../../helper/repository.ts";

async function pull(world: World, options: PullOptions = {}) {
  await using work = await world.collect();
  return await pullWork(work, options);
}

async function apply(world: World, ...paths: string[]) {
  await using work = await world.collect();
  return await applyWork(work, paths);
}

async function untaken(world: World) {
  await using work = await world.collect();
  return await untakenOf(work.units[0]);
}

async function ofPerson(script: string): Promise<World> {
  const world = await World.make();
  await sh(
    world.person,
    `git init -q -b main; git config user.name P; git config user.email p@example.com; ${script}; git add -A; git commit -qm first`,
  );
  await world.bring();
  return world;
}

const log = (world: World, branch: string) => git(world.person, "log", "--format=%s (%an)", branch);

Deno.test("a message is of the commit of uncommitted work; the guest's own commits keep theirs", async () => {
  await using world = await ofPerson("echo 1 >a");
  await sh(world.inside, "echo 2 >a; git commit -qam 'fix a'; echo 3 >b");
  await pull(world, { message: "Add b\n\nbecause" });
  assertEquals(await log(world, "sbx/demo"), "Add b (P)\nfix a (A)\nfirst (A)");
  assertEquals(await git(world.person, "log", "-1", "--format=%b", "sbx/demo"), "because\n");
  assertEquals(await untaken(world), { commits: 0, files: 0 });
  await pull(world, { message: "Only a", paths: ["a"], branch: "part" });
  assertEquals(await log(world, "part"), "Only a (P)\nfirst (A)");
  await sh(world.inside, "git add b; git commit -qm 'own b'");
  await pull(world, { message: "no commit to be worded", branch: "own" });
  assertEquals(await log(world, "own"), "own b (A)\nfix a (A)\nfirst (A)");
});

Deno.test("all work as one commit is no commit that was not pulled, also after more of it", async () => {
  await using world = await ofPerson("echo 1 >a; echo 1 >gone");
  await sh(world.inside, "echo 2 >a; git commit -qam one; git rm -q gone; git commit -qam two; echo 3 >b");
  const { branches: [{ commits }] } = await pull(world, { isSquashed: true, message: "All of it" });
  assertEquals([commits, await log(world, "sbx/demo")], [1, "All of it (P)\nfirst (A)"]);
  assertEquals(await git(world.person, "diff", "--name-status", "main", "sbx/demo"), "M\ta\nA\tb\nD\tgone");
  assertEquals(await untaken(world), { commits: 0, files: 0 });
  await sh(world.inside, "git add b; git commit -qm three; echo 4 >a");
  assertEquals(await untaken(world), { commits: 1, files: 1 });
  await pull(world, { isSquashed: true });
  assertEquals(await log(world, "sbx/demo"), "Work of demo (P)\nfirst (A)");
  assertEquals(await untaken(world), { commits: 0, files: 0 });
  await sh(world.inside, "echo 5 >a; echo 5 >c");
  {
    await using work = await world.collect();
    const [unit] = work.units;
    await pullAccepted(work, new Map([[unit, await entriesOf(unit, ["c"])]]));
  }
  assertEquals(await log(world, "sbx/demo"), "Work of demo (sbx)\nWork of demo (P)\nfirst (A)");
  assertEquals(await untaken(world), { commits: 0, files: 1 }, "a part on top of them");
  // The same branch with the guest's commits again.
  await pull(world);
  assertEquals(
    await git(world.person, "log", "--format=%s", "sbx/demo"),
    "Uncommitted work\nthree\ntwo\none\nfirst",
  );
});

Deno.test("work is given to the person's files, again and again; index and branches stay", async () => {
  await using world = await ofPerson("echo 1 >a; echo 1 >b; echo 1 >gone; mkdir d; echo 1 >d/f");
  await sh(world.person, "echo mine >mine; echo 2 >b; git add b");
  const before = await sh(world.person, "git ls-files -s; git for-each-ref; git log --format=%H");
  await sh(world.inside, "echo 2 >a; git commit -qam a; rm gone; echo 2 >d/f; ln -s a l");
  const { folder, branches } = await apply(world);
  assertEquals([folder!.written, folder!.removed, branches], [["a", "d/f", "l"], ["gone"], []]);
  assertEquals(await sh(world.person, "cat a b d/f l mine"), "2\n2\n2\n2\nmine\n");
  assertEquals(await sh(world.person, "git ls-files -s; git for-each-ref; git log --format=%H"), before);
  assertEquals(await untaken(world), { commits: 0, files: 0 });
  assertEquals((await apply(world)).is_unchanged, true);
  await sh(world.inside, "echo 3 >a; echo 1 >gone");
  assertEquals((await untaken(world)).files, 2);
  assertEquals((await apply(world)).folder!.written, ["a", "gone"]);
  // Back to what went in.
  await sh(world.inside, "git reset -q --hard HEAD^; rm l");
  assertEquals((await apply(world)).folder!.written.toSorted(), ["a", "d/f"]);
  assertEquals(await sh(world.person, "cat a d/f gone"), "1\n1\n1\n");
});

Deno.test("work of a repository with SHA-256 is given to the person's files", async () => {
  await using world = await World.make();
  await sh(
    world.person,
    "git init -q -b main --object-format=sha256; echo 1 >a; ln -s a l; git add -A; git -c user.name=P -c user.email=p@example.com commit -qm first",
  );
  await world.bring();
  await sh(world.inside, "echo 2 >a; ln -sf b l");
  assertEquals((await apply(world)).folder!.written, ["a", "l"]);
  assertEquals(await sh(world.person, "cat a; readlink l"), "2\nb\n");
});

Deno.test("work that would overwrite a change, an ignored or another file is refused, and nothing is written", async () => {
  await using world = await ofPerson("echo 1 >a; echo 1 >b; echo 1 >c; echo out >.gitignore");
  await sh(world.inside, "echo 2 >a; echo 2 >b; rm c; echo 2 >new; rm .gitignore; echo 2 >out; ln -s a link");
  for (
    const change of [
      "echo 3 >b",
      "echo 3 >c",
      "echo 3 >new",
      "echo 3 >out",
      "rm b",
      "rm b; ln -s /etc/passwd b",
      "mkdir new; echo 3 >new/file",
      "echo 3 >link",
      "chmod +x a",
    ]
  ) {
    await sh(world.person, `cp -a . ../saved; ${change}`);
    const before = await listing(world.person);
    const { code, hint } = await assertRejects(() => apply(world), SbxError, undefined, change);
    assertEquals(code, "repo.would_overwrite", change);
    assertStringIncludes(hint!, "sbx pull demo");
    assertEquals(await listing(world.person), before, change);
    await sh(world.dir, "rm -rf person; mv saved person");
  }
  assertEquals((await apply(world, "a")).folder!.written, ["a"]);
  assertEquals((await untaken(world)).files > 0, true);
  assertEquals((await apply(world)).folder!.written.toSorted(), ["b", "link", "new", "out"]);
});

Deno.test("files of a submodule are given too, and the commit that its parent names stays", async () => {
  await using world = await World.make();
  await sh(
    world.dir,
    `git init -q -b main lib; cd lib; echo 1 >l; git add .; git commit -qm lib; cd ../person; git init -q -b main; echo 1 >a
    git -c protocol.file.allow=always submodule --quiet add ../lib sub; git add -A; git commit -qm super`,
  );
  await world.bring();
  await sh(world.inside, "cd sub; echo 2 >l; git commit -qam 2; cd ..; echo 2 >a; git commit -qam 2");
  const head = await git(`${world.person}/sub`, "rev-parse", "HEAD");
  assertEquals((await apply(world)).folder!.written, ["sub/l", "a"]);
  assertEquals(await git(`${world.person}/sub`, "rev-parse", "HEAD"), head);
});

Deno.test("a branch that also has what the person had not committed says so, as long as git would not merge it", async () => {
  await using world = await World.make();
  await sh(world.person, "git init -q -b main; echo 1 >a; echo 1 >b; git add -A; git commit -qm first");
  await sh(world.person, "echo 2 >a; for n in 1 2 3; do echo $n >new-$n; done");
  await world.bring();
  await sh(world.inside, "echo 2 >b; git commit -qam 'fix b'");
  const described = async () => {
    await using work = await world.collect();
    return (await describePulled(await pullWork(work), work)).split("\n");
  };
  assertEquals(await described(), [
    "branch sbx/demo: 2 commits; git merge sbx/demo takes them",
    "sbx/demo also has what you had not committed of a, new-1, new-2 and 1 other: commit that before git merge, or sbx pull demo --apply",
  ]);
  await assertRejects(() => git(world.person, "merge", "-q", "sbx/demo"), Error, "would be overwritten");
  await sh(world.person, "git add -A; git commit -qm mine");
  await git(world.person, "merge", "-q", "--no-edit", "sbx/demo");
  assertEquals(await described(), ["branch sbx/demo: 2 commits; git merge sbx/demo takes them"]);
});
