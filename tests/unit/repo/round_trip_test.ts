/** A repository into a guest, and the work on it back. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { changesOf, changesToPull, patchOf, pullWork, untakenOf } from "../../../lib/repo/mod.ts";
import { git, listing, sh, World } from "../../helper/repository.ts";

Deno.test("a repository goes in with history, branches, tags, links, modes, odd names and uncommitted work", async () => {
  await using world = await World.make();
  await sh(
    world.person,
    `git init -q -b trunk
    echo one >a.txt; mkdir -p "dir/ü b"; echo two >"dir/ü b/c d.txt"; ln -s ../a.txt dir/link; echo x >run.sh; chmod +x run.sh
    printf 'bin\\0ary' >b.bin; echo gone >gone.txt; printf 'ignored\\n' >.gitignore; printf 'private.txt\\n' >.sbxignore
    git add -A; git commit -q -m first; git tag v1; git branch other
    echo more >>a.txt; rm gone.txt; echo new >untracked.txt; echo no >ignored; echo mine >private.txt; echo staged >staged; git add staged`,
  );
  const before = await sh(world.person, "git status --porcelain; find .git -type f | sort");
  const brought = await world.bring();
  assertEquals(await sh(world.person, "git status --porcelain; find .git -type f | sort"), before);
  assertEquals([brought.branch, brought.has_changes, brought.secrets_left_out], ["trunk", true, []]);
  await sh(world.person, "rm ignored private.txt");
  assertEquals(await listing(world.inside), await listing(world.person));
  assertEquals(await git(world.inside, "log", "--format=%H"), await git(world.person, "log", "--format=%H"));
  assertEquals(await git(world.inside, "symbolic-ref", "HEAD"), "refs/heads/trunk");
  assertEquals(await git(world.inside, "branch", "--format=%(refname:short)"), "other\ntrunk");
  assertEquals(await git(world.inside, "tag"), "v1");
  assertStringIncludes(await git(world.inside, "status", "--porcelain"), " D gone.txt");
});

Deno.test("commits and uncommitted work come back as a branch, and nothing else of the repository changes", async () => {
  await using world = await World.ofRepository("echo one >a.txt; echo two >b.txt");
  await sh(world.inside, "echo fixed >a.txt; git commit -qam 'fix a'; rm b.txt; echo new >c.txt");
  const before = await sh(
    world.person,
    "git status --porcelain; git for-each-ref; cat .git/config; ls .git/hooks .git/info",
  );
  {
    await using work = await world.collect();
    const changes = await changesOf(work.units[0]);
    assertEquals(changes.files.map(({ path, status, added, removed }) => [path, status, added, removed]), [
      ["a.txt", "modified", 1, 1],
      ["b.txt", "deleted", 0, 1],
      ["c.txt", "added", 1, 0],
    ]);
    assertEquals(changes.commits.map(({ subject }) => subject), ["fix a"]);
    assertStringIncludes(await patchOf(work.units[0]), "-one\n+fixed\n");
    const { branches: [{ branch, commits }] } = await pullWork(work);
    assertEquals([branch, commits], ["sbx/demo", 2]);
  }
  assertEquals(await git(world.person, "log", "--format=%s", "sbx/demo"), "Uncommitted work\nfix a\nfirst");
  assertEquals(await git(world.person, "show", "sbx/demo:c.txt"), "new");
  await sh(
    world.person,
    "git fsck --strict; git branch -q -D sbx/demo; rmdir .git/logs/refs/heads/sbx .git/refs/heads/sbx 2>/dev/null || :",
  );
  assertEquals(
    await sh(
      world.person,
      "git status --porcelain; git for-each-ref; cat .git/config; ls .git/hooks .git/info",
    ),
    before,
  );
  assertEquals(await sh(world.room, "ls"), "0.git\nrecord.json\n");
});

Deno.test("a second pull moves its own branch, and never one with commits of the person", async () => {
  await using world = await World.ofRepository();
  const pull = async () => {
    await using work = await world.collect();
    return await pullWork(work);
  };
  assertEquals((await pull()).is_unchanged, true);
  await sh(world.inside, "echo two >a.txt");
  await pull();
  await sh(world.inside, "echo three >a.txt");
  await pull();
  assertEquals(await git(world.person, "show", "sbx/demo:a.txt"), "three");
  await sh(world.person, "git checkout -q sbx/demo");
  await sh(world.inside, "echo four >a.txt");
  assertEquals((await assertRejects(pull, SbxError)).code, "repo.branch_busy");
  await sh(world.person, "echo mine >mine; git add mine; git commit -qm mine; git checkout -q main");
  assertEquals((await assertRejects(pull, SbxError)).code, "repo.branch_moved");
  assertEquals(await git(world.person, "log", "-1", "--format=%s", "sbx/demo"), "mine");
});

Deno.test("work that no pull took is known: commits, files that were not committed, and parts", async () => {
  await using world = await World.ofRepository("echo 1 >a.txt; echo 1 >b.txt");
  const untaken = async (paths?: string[]) => {
    await using work = await world.collect();
    if (paths) await pullWork(work, { paths });
    return await untakenOf(work.units[0]);
  };
  const pull = async () => {
    await using work = await world.collect();
    await pullWork(work);
  };
  assertEquals(await untaken(), { commits: 0, files: 0 });
  await sh(world.inside, "echo 2 >a.txt; git commit -qam 'a'; echo 2 >b.txt");
  assertEquals(await untaken(), { commits: 1, files: 2 });
  assertEquals(await untaken(["a.txt"]), { commits: 1, files: 1 });
  await pull();
  assertEquals(await untaken(), { commits: 0, files: 0 });
  await sh(world.inside, "git commit -qam 'b'");
  assertEquals(await untaken(), { commits: 1, files: 0 });
  await pull();
  assertEquals(await untaken(), { commits: 0, files: 0 });
  await sh(world.inside, "git commit -q --allow-empty -m 'empty'");
  assertEquals(await untaken(), { commits: 1, files: 0 });
});

Deno.test("single paths come back as one commit on what was brought in", async () => {
  await using world = await World.ofRepository("mkdir d; echo 1 >d/a; echo 1 >b");
  await sh(world.inside, "echo 2 >d/a; echo 2 >b; git commit -qam both");
  await using work = await world.collect();
  await pullWork(work, { paths: ["d"], branch: "only-d" });
  assertEquals(await git(world.person, "diff", "--name-only", "main", "only-d"), "d/a");
  for (const path of ["no", "..", "d/../b", "/d", ".", ""]) {
    const { code } = await assertRejects(() => pullWork(work, { paths: [path] }), SbxError);
    assertEquals(code, "repo.no_change", path);
  }
});

Deno.test("the changes of a pull are of the paths that it takes, in each repository and below each folder", async () => {
  await using world = await World.ofRepository("mkdir d; echo 1 >d/a; echo 1 >b");
  await sh(world.inside, "echo x >Makefile; echo x >d/Makefile; echo 2 >d/a; echo 2 >b");
  await using work = await world.collect();
  const named = async (...paths: string[]) =>
    (await changesToPull(work, paths)).map(({ files, notable }) => [files.map(({ path }) => path), notable]);
  assertEquals(await named(), [[["Makefile", "b", "d/Makefile", "d/a"], ["Makefile", "d/Makefile"]]]);
  assertEquals(await named("b"), [[["b"], []]]);
  assertEquals(await named("d", "b"), [[["b", "d/Makefile", "d/a"], ["d/Makefile"]]]);
  assertEquals((await assertRejects(() => named("no"), SbxError)).code, "repo.no_change");
});

Deno.test("parts taken one after the other, or at once, are all there", async () => {
  await using world = await World.ofRepository("echo 1 >a; echo 1 >b; echo 1 >c; echo 1 >d");
  await sh(world.inside, "for f in a b c d; do echo 2 >$f; done");
  const take = async (path: string) => {
    await using work = await world.collect();
    return (await pullWork(work, { paths: [path] })).branches[0].branch;
  };
  assertEquals([await take("a"), await take("b"), await take("a")], ["sbx/demo", "sbx/demo-2", "sbx/demo"]);
  assertEquals((await Promise.all([take("c"), take("d")])).toSorted(), ["sbx/demo-3", "sbx/demo-4"]);
  const parts = ["sbx/demo", "sbx/demo-2", "sbx/demo-3", "sbx/demo-4"];
  const changed = parts.map((branch) => git(world.person, "diff", "--name-only", "main", branch));
  assertEquals((await Promise.all(changed)).toSorted(), ["a", "b", "c", "d"]);
});

Deno.test("a folder that took something meanwhile is looked at again first", async () => {
  await using world = await World.make();
  await sh(world.person, "echo 1 >a; echo 1 >b");
  await world.bring();
  await sh(world.inside, "echo 2 >a; echo 2 >b");
  await using early = await world.collect();
  await using late = await world.collect();
  await pullWork(early, { paths: ["a"] });
  assertEquals((await assertRejects(() => pullWork(late), SbxError)).code, "repo.changed");
  await using again = await world.collect();
  assertEquals((await pullWork(again)).folder!.written, ["b"]);
});

Deno.test("pushed again, the guest follows; work of its own is left as it is", async () => {
  await using world = await World.ofRepository();
  await sh(world.person, "echo two >a.txt; git commit -qam second; echo draft >draft.txt");
  await world.bring();
  assertEquals(await listing(world.inside), await listing(world.person));
  assertEquals(await git(world.inside, "log", "-1", "--format=%s"), "second");
  await sh(world.inside, "echo mine >guest.txt");
  await sh(world.person, "git commit -q --allow-empty -m third");
  assertEquals((await assertRejects(() => world.bring(), SbxError)).code, "repo.diverged");
  assertEquals(await Deno.readTextFile(`${world.inside}/guest.txt`), "mine\n");
  assertEquals(await git(world.inside, "log", "-1", "--format=%s", "host/main"), "third");
});

Deno.test("submodules go in and their work comes back into theirs", async () => {
  await using world = await World.make();
  await sh(
    world.dir,
    `git init -q -b main lib; cd lib; echo 1 >l.txt; git add .; git commit -qm lib; cd ../person; git init -q -b main; echo 1 >a
    git -c protocol.file.allow=always submodule --quiet add ../lib vendor/lib; git add -A; git commit -qm super`,
  );
  assertEquals((await world.bring()).submodules, ["vendor/lib"]);
  assertEquals(await git(world.inside, "status", "--porcelain"), "");
  await sh(
    world.inside,
    "cd vendor/lib; echo 2 >l.txt; git commit -qam 'change lib'; cd ../..; git commit -qam bump",
  );
  await using work = await world.collect();
  const { branches } = await pullWork(work);
  assertEquals(branches.map(({ path }) => path), ["", "vendor/lib"]);
  assertEquals(
    await git(world.person, "rev-parse", "sbx/demo:vendor/lib"),
    await git(`${world.person}/vendor/lib`, "rev-parse", "sbx/demo"),
  );
});

Deno.test("files that look like secrets stay, committed ones are named", async () => {
  await using world = await World.make();
  await sh(
    world.person,
    `git init -q; echo A=1 >.env; git add -f .env; git commit -qm oops; mkdir s
    echo B=2 >s/.env.local; echo >s/.env.example; echo k >id_rsa; echo k >id_rsa.pub; echo k >a.pem
    echo '//r/:_authToken=x' >.npmrc; echo 'registry=x' >s/.npmrc; git add id_rsa`,
  );
  const { secrets_left_out, secrets_committed } = await world.bring();
  assertEquals(secrets_left_out.toSorted(), [".npmrc", "a.pem", "id_rsa", "s/.env.local"]);
  assertEquals(secrets_committed, [".env"]);
  assertEquals(
    await sh(world.inside, "ls -A . s"),
    ".:\n.env\n.git\nid_rsa.pub\ns\n\ns:\n.env.example\n.npmrc\n",
  );
  await using other = await World.make();
  await sh(other.person, "git init -q; echo x >a; git add a; git commit -qm a; echo A=1 >.env");
  await other.bring({ withSecrets: true });
  assert((await Deno.stat(`${other.inside}/.env`)).isFile);
});
