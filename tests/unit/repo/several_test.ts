/** Several repositories and folders in one guest. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { silent } from "../../../lib/base/progress/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  bringIn,
  type BringOptions,
  changesOf,
  pullAccepted,
  pullWork,
  Room,
  untakenOf,
  Work,
} from "../../../lib/repo/mod.ts";
import { reviewWork } from "../../../cmd/sbx/files/review.ts";
import { git, sh, World } from "../../helper/repository.ts";

/** A world with the repositories `web` and `api`, the folder `notes`, and nothing in the guest. */
async function several(): Promise<World> {
  const world = await World.make();
  await sh(
    world.person,
    `for name in web api; do mkdir $name; cd $name; git init -q -b main; echo $name >name; git add .; git commit -qm $name; cd ..; done
    mkdir notes; echo n >notes/n`,
  );
  return world;
}

/** Brings a folder below the person's in; its place is below the guest's. */
async function bring(world: World, path: string, options: Partial<BringOptions> = {}) {
  const { guest, room } = world;
  const dir = join(world.person, path);
  const place = join(dirname(world.inside), path.split("/").at(-1)!);
  return await bringIn(guest, { dir, room, place, progress: silent, ...options });
}

const inside = (world: World, name: string) => join(dirname(world.inside), name);

async function codeOf(run: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(run, SbxError)).code;
}

Deno.test("each of several repositories and folders comes back into its own, all or by name", async () => {
  await using world = await several();
  for (const name of ["web", "api", "notes"]) assertEquals((await bring(world, name)).name, name);
  await sh(
    dirname(world.inside),
    `cd web; echo 2 >name; git commit -qam 'web 2'; cd ../api; echo 3 >new; cd ../notes; echo 4 >n`,
  );
  {
    await using work = await world.collect();
    const changes = await Promise.all(work.units.map(changesOf));
    assertEquals(
      changes.map(({ repository, label, files }) => [repository, label, files.map(({ path }) => path)]),
      [
        ["web", "web", ["name"]],
        ["api", "api", ["new"]],
        ["notes", "notes", ["n"]],
      ],
    );
  }
  {
    await using work = await Work.collect(world.guest, world.room, ["api"]);
    assertEquals(work.units.map(({ source }) => source.name), ["api"]);
    const { branches } = await pullWork(work, { paths: ["api"] });
    assertEquals(branches.map(({ repository, branch }) => [repository, branch]), [["api", "sbx/demo"]]);
  }
  assertEquals(
    await git(join(world.person, "api"), "log", "--format=%s", "sbx/demo"),
    "Uncommitted work\napi",
  );
  assertEquals(await git(join(world.person, "web"), "branch", "--format=%(refname:short)"), "main");
  await using work = await world.collect();
  const { branches, folder } = await pullWork(work);
  assertEquals(branches.map(({ repository }) => repository), ["web", "api"]);
  assertEquals(folder, { written: ["notes/n"], removed: [], conflicts: [] });
  assertEquals(await git(join(world.person, "web"), "log", "-1", "--format=%s", "sbx/demo"), "web 2");
});

Deno.test("paths begin with the name of a repository, and a review is one for all", async () => {
  await using world = await several();
  for (const name of ["web", "api"]) await bring(world, name);
  await sh(dirname(world.inside), "for name in web api; do echo 2 >$name/name; echo 2 >$name/other; done");
  await using work = await world.collect();
  for (const path of ["name", "no/name", "../web", "", "/web/name", "web/../api/name"]) {
    assertEquals(await codeOf(() => pullWork(work, { paths: [path] })), "repo.no_change", path);
  }
  const { branches } = await pullWork(work, { paths: ["web/name", "api"], branch: "part" });
  assertEquals(branches.map(({ repository }) => repository), ["web", "api"]);
  const changed = (name: string, branch: string) =>
    git(join(world.person, name), "diff", "--name-only", "main", branch);
  assertEquals([await changed("web", "part"), await changed("api", "part")], ["name", "name\nother"]);
  const answers = ["n", "y", "y", "n"];
  const { accepted } = await reviewWork(work, () => answers.shift());
  await pullAccepted(work, accepted);
  assertEquals([await changed("web", "sbx/demo"), await changed("api", "sbx/demo")], ["other", "name"]);
});

Deno.test("nothing of a neighbour that is read-only comes back, and it is brought up to date", async () => {
  await using world = await several();
  await bring(world, "web");
  assertEquals((await bring(world, "api", { isReadOnly: true })).is_read_only, true);
  await sh(dirname(world.inside), "echo 2 >web/name");
  await sh(join(world.person, "api"), "echo 2 >name; git commit -qam news");
  await bring(world, "api");
  assertEquals(await Deno.readTextFile(join(inside(world, "api"), "name")), "2\n");
  await sh(dirname(world.inside), "echo 3 >api/name");
  await using work = await world.collect();
  assertEquals(work.units.map(({ source, label }) => [source.name, label]), [["web", ""]]);
  await pullWork(work);
  assertEquals(await git(join(world.person, "api"), "branch", "--format=%(refname:short)"), "main");
  assertEquals(await codeOf(() => bring(world, "web", { isReadOnly: true })), "repo.other_folder");
  await using alone = await several();
  await bring(alone, "api", { isReadOnly: true });
  assertEquals(await codeOf(() => alone.collect()), "repo.none");
});

Deno.test("two with the same base name have names and places of their own, and no place is in another", async () => {
  await using world = await several();
  await sh(world.person, "mkdir old; cp -r web old/web; cd old/web; git commit -q --allow-empty -m old");
  assertEquals((await bring(world, "web")).name, "web");
  const place = inside(world, "web-2");
  assertEquals((await bring(world, "old/web", { place })).name, "web-2");
  assertEquals(await git(place, "log", "-1", "--format=%s"), "old");
  for (const wrong of [inside(world, "web"), `${inside(world, "web")}/api`, dirname(world.inside)]) {
    assertEquals(await codeOf(() => bring(world, "api", { place: wrong })), "repo.other_folder", wrong);
  }
  for (const wrong of ["api", "/root/../api", "/root/a\nb"]) {
    assertEquals(await codeOf(() => bring(world, "api", { place: wrong })), "usage.invalid", wrong);
  }
  assertEquals((await new Room(world.room).read())!.sources.map(({ name }) => name), ["web", "web-2"]);
});

Deno.test("a link to a repository is that repository, and odd names of folders are names in the guest", async () => {
  await using world = await several();
  await sh(world.person, `ln -s web link; mkdir -- '-x y'; echo 1 >'-x y/f'; mkdir ..b; echo 1 >..b/f`);
  await bring(world, "web");
  assertEquals((await bring(world, "link", { place: undefined })).name, "web");
  const names = async (path: string, name: string) =>
    (await bring(world, path, { place: join(dirname(world.inside), name) })).name;
  assertEquals([await names("-x y", "-x y"), await names("..b", "..b")], ["x_y", "b"]);
});

Deno.test("worktrees of one repository come back as a branch each", async () => {
  await using world = await several();
  await sh(
    join(world.person, "web"),
    "git worktree add -q -b feature ../web.feature; echo draft >../web.feature/draft",
  );
  for (const name of ["web", "web.feature"]) await bring(world, name);
  assertEquals(await git(inside(world, "web.feature"), "symbolic-ref", "HEAD"), "refs/heads/feature");
  await sh(dirname(world.inside), "echo 1 >web/a; echo 2 >web.feature/a");
  const pull = async (branch?: string) => {
    await using work = await world.collect();
    return (await pullWork(work, { branch })).branches.map((each) => each.branch);
  };
  assertEquals(await pull(), ["sbx/demo", "sbx/demo-web-feature"]);
  assertEquals(await pull("fix"), ["fix", "fix-web-feature"]);
  const show = (name: string) => git(join(world.person, "web"), "show", name);
  assertEquals([await show("sbx/demo:a"), await show("sbx/demo-web-feature:a")], ["1", "2"]);
  assertEquals(await show("sbx/demo-web-feature:draft"), "draft");
});

Deno.test("what was brought in by an earlier version comes back, beside what is brought in now", async () => {
  await using world = await several();
  await bring(world, "web");
  const path = join(world.room, "record.json");
  const { sources: [{ dir, place, units }] } = JSON.parse(await Deno.readTextFile(path));
  const old = units.map(({ store: _, ...unit }: { store: string }) => unit);
  await Deno.writeTextFile(path, JSON.stringify({ version: 1, dir, place, units: old }));
  await sh(inside(world, "web"), "echo 2 >name");
  {
    await using work = await world.collect();
    assertEquals((await pullWork(work)).branches.map(({ repository }) => repository), ["web"]);
  }
  await bring(world, "api");
  const record = await new Room(world.room).read();
  assertEquals(
    record!.sources.map(({ name, units }) => [name, units[0].store, Object.keys(units[0].pulled)]),
    [
      ["web", "0.git", ["sbx/demo"]],
      ["api", "1.git", []],
    ],
  );
});

Deno.test("sources brought in at once, and a pull meanwhile, are all recorded", async () => {
  await using world = await several();
  await bring(world, "web");
  await sh(inside(world, "web"), "echo 2 >name");
  const pull = async () => {
    await using work = await world.collect();
    await pullWork(work);
  };
  await Promise.all([bring(world, "api"), bring(world, "notes"), pull()]);
  const { sources } = (await new Room(world.room).read())!;
  assertEquals(sources.map(({ name }) => name).toSorted(), ["api", "notes", "web"]);
  assertEquals(new Set(sources.map(({ units }) => units[0].store)).size, 3);
  assertEquals(Object.keys(sources.find(({ name }) => name === "web")!.units[0].pulled), ["sbx/demo"]);
});

Deno.test("a repository that the guest put in the place of another is refused, and the others come back", async () => {
  await using world = await several();
  for (const name of ["web", "api"]) await bring(world, name);
  await bring(world, "notes", { isReadOnly: true });
  await sh(
    dirname(world.inside),
    "echo 2 >api/name; git -C api commit -qam 2; rm -r web; cp -r api web; echo 3 >web/x",
  );
  const { code, message } = await assertRejects(() => world.collect(), SbxError);
  assertEquals(code, "repo.refused");
  assertStringIncludes(message, `the history of "${world.person}/api" in the place of "${world.person}/web"`);
  await using work = await Work.collect(world.guest, world.room, ["api"]);
  assertEquals((await pullWork(work, { paths: ["api"] })).branches.length, 1);
  assertEquals(await git(join(world.person, "web"), "branch", "--format=%(refname:short)"), "main");
  // A history of its own is the guest's work.
  await sh(
    inside(world, "web"),
    "git checkout -q --orphan own; git rm -rqf .; echo 1 >own; git add own; git commit -qm own; rm -f x",
  );
  await using own = await Work.collect(world.guest, world.room, ["web"]);
  assertEquals((await pullWork(own, { paths: ["web"] })).branches[0].commits, 1);
});

Deno.test("work that was not pulled is counted of every source that comes back", async () => {
  await using world = await several();
  for (const name of ["web", "api"]) await bring(world, name);
  await sh(dirname(world.inside), "echo 2 >web/name; echo 2 >api/name");
  await using work = await world.collect();
  assertEquals(await Promise.all(work.units.map(untakenOf)), [{ commits: 0, files: 1 }, {
    commits: 0,
    files: 1,
  }]);
});
