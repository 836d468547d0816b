/**
 * Published weaknesses of git and of tools around it, tried on the way of a repository into a VM and back.
 * docs/design/cves.md
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "node:path";
import { formatStat, patchText } from "../../../cmd/sbx/files/diff_text.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { changesOf, patchOf, pullWork } from "../../../lib/repo/mod.ts";
import { exists } from "../../helper/exists.ts";
import { bytesOf, Forge, HostileGuest, type RawEntry, take, takeFrom } from "../../helper/hostile_guest.ts";
import { git, sh, World } from "../../helper/repository.ts";

/** Takes one forged tree. @returns the code of its refusal */
async function takeTree(make: (forge: Forge) => Promise<RawEntry[]>): Promise<string | undefined> {
  await using world = await World.ofRepository("echo x >keep.txt; mkdir d; echo y >d/in.txt");
  const forge = Forge.of(world);
  return await take(world, await forge.commit(await forge.tree(await make(forge))));
}

const modules = (lines: string, name = "m") => `[submodule "${name}"]\n${lines}\n`;

/** Takes a tree whose .gitmodules has these lines. */
const takeModules = (lines: string) =>
  takeTree(async (forge) => [["100644", ".gitmodules", await forge.blob(modules(lines))]]);

Deno.test("CVE-2024-32002: a link that a submodule's path runs into, in another case, writes no hook", async () => {
  for (const target of [".git", ".git/modules", ".GIT/modules/x"]) {
    const code = await takeTree(async (forge) => {
      const commit = await git(forge.dir, "rev-parse", "HEAD");
      const below = await forge.tree([["40000", "modules", await forge.tree([["160000", "x", commit]])]]);
      const text = modules("path = A/modules/x\nurl = https://h/x", "x/y");
      return [["100644", ".gitmodules", await forge.blob(text)], ["40000", "A", below], [
        "120000",
        "a",
        await forge.blob(target),
      ]];
    });
    assertEquals(code, "repo.refused", target);
  }
});

Deno.test("CVE-2026-44471: one name that is a link and a folder writes no second link through the first", async () => {
  const code = await takeTree(async (forge) => {
    const inner = await forge.tree([["120000", "hooks", await forge.blob("in.txt")]]);
    return [["120000", "a", await forge.blob("d")], ["40000", "a", inner]];
  });
  assertEquals(code, "repo.refused");
});

Deno.test("CVE-2025-48384: a path of a submodule that ends in a carriage return is refused", async () => {
  for (const lines of ['path = "sub\\r"', 'path = "su\\rb"', 'path = sub\nbranch = "x\\r"']) {
    const text = `${lines.replace("\\r", "\r")}\nurl = https://h/x`;
    assertEquals(await takeModules(text), "repo.refused", lines);
  }
  const link = (forge: Forge) => forge.blob(".git/modules/sub/hooks");
  assertEquals(await takeTree(async (forge) => [["120000", "sub\r", await link(forge)]]), "repo.refused");
  assertEquals(await takeModules("path = sub\nurl = https://h/x"), undefined);
});

Deno.test("CVE-2024-52006: a line break in a submodule's URL, as it is or encoded, is refused", async () => {
  for (
    const url of ['"https://h/x\\ny"', "https://h%0dhost=x/y", "https://u%0Aname@h/x", '"https://h\\r/x"']
  ) {
    assertEquals(await takeModules(`path = m\nurl = ${url}`), "repo.refused", url);
  }
});

Deno.test("CVE-2024-50349: a host or user name that would rewrite a prompt for a password is refused", async () => {
  for (
    const url of [
      "https://github.com%1b%5b2K@h/x",
      "https://%1B%5D0;x%07@h/x",
      "https://github.com%c2%9b2K@h/x",
      "https://github.com%7f%7f@h/x",
    ]
  ) {
    assertEquals(await takeModules(`path = m\nurl = ${url}`), "repo.refused", url);
  }
  assertEquals(await takeModules("path = m\nurl = https://h/caf%C3%89"), undefined);
});

Deno.test("CVE-2025-48385: a list of bundles in a bundle's place is neither fetched nor written", async () => {
  await using world = await World.ofRepository();
  const tip = await git(world.inside, "rev-parse", "HEAD");
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let connections = 0;
  const accept = (async () => {
    for await (const conn of listener) {
      connections++;
      conn.close();
    }
  })();
  const uri = `http://127.0.0.1:${(listener.addr as Deno.NetAddr).port}/x`;
  for (const to of [uri, `${uri}\n${world.dir}/out`, `file://${world.inside}`]) {
    const list = `[bundle]\n\tversion = 1\n\tmode = all\n[bundle "x"]\n\turi = ${to}\n`;
    const bytes = new TextEncoder().encode(list);
    assertEquals(await takeFrom(world, new HostileGuest(tip, bytesOf(bytes))), "repo.refused", to);
  }
  listener.close();
  await accept;
  assertEquals([connections, await exists(`${world.dir}/out`)], [0, false]);
});

Deno.test("CVE-2025-68144: options in the place of a commit or a branch run and write nothing", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, "echo two >a.txt");
  const out = join(world.dir, "written");
  const forge = Forge.of(world);
  const bytes = await forge.bundle(await forge.commit(await forge.tree([])));
  for (
    const tip of [`--output=${out}`, `--exec=touch ${out}`, "--upload-pack=id", "-O/x", "HEAD --output=x"]
  ) {
    const failure = await takeFrom(world, new HostileGuest(tip, bytesOf(bytes)));
    assertMatch(String(failure), /^repo\.(refused|guest_failed)$/, tip);
  }
  await using work = await world.collect();
  for (const branch of [`--output=${out}`, "-d", "--force"]) {
    const error = await assertRejects(() => pullWork(work, { branch }), SbxError);
    assertEquals(error.code, "repo.branch_invalid", branch);
  }
  assertEquals(await exists(out), false);
});

Deno.test("CVE-2025-27614: a file whose name is a command or an option is only a file", async () => {
  await using world = await World.ofRepository();
  const marker = join(world.dir, "ran");
  const names = [
    `|touch ${marker.slice(1).replaceAll("/", "∕")}`,
    "--output=ran",
    "-",
    ":(top)a.txt",
    "$(touch ran)",
  ];
  for (const name of names) await Deno.writeTextFile(join(world.inside, name), "text\n");
  await using work = await world.collect();
  const changes = await changesOf(work.units[0]);
  const patch = await patchOf(work.units[0]);
  await pullWork(work);
  assertEquals(changes.files.length, names.length);
  for (const name of ["--output=ran", ":(top)a.txt", "$(touch ran)"]) assert(patch.includes(name), name);
  const ran = await sh(world.dir, "find . -name ran -newer person; find person -name ran");
  assertEquals(ran, "");
  const tree = await git(world.person, "ls-tree", "--name-only", "-z", "sbx/demo");
  assertEquals(tree.split("\0").filter((name) => name.startsWith("--")), ["--output=ran"]);
});

Deno.test("CVE-2024-52005: a git of the guest whose words move the cursor leaves the person's screen alone", async () => {
  await using world = await World.ofRepository();
  const escapes = "\x1b]0;title\x07\x1b[1A\x1b[2K\u009b2J\u202e";
  const guest = new HostileGuest("x", bytesOf(new Uint8Array()));
  guest.run = () => Promise.resolve({ code: 1, stdout: escapes, stderr: `fatal: ${escapes}` });
  const failure = await assertRejects(() => world.collect(guest), SbxError);
  const bundle = new TextEncoder().encode(`# v2 git bundle\n-${"0".repeat(40)} ${escapes}\n\n`);
  const tip = await git(world.inside, "rev-parse", "HEAD");
  const second = await world.collect(new HostileGuest(tip, bytesOf(bundle))).then(
    () => undefined,
    (error) => error,
  );
  const forge = Forge.of(world);
  const named = await forge.commit(await forge.tree([["100644", "a\x1b[2Jb", await forge.blob(escapes)]]));
  await using work = await world.collect(new HostileGuest(named, bytesOf(await forge.bundle(named))));
  const shown = formatStat([await changesOf(work.units[0])]) + patchText(await patchOf(work.units[0]));
  assert(second instanceof SbxError);
  for (const text of [failure.message, failure.hint ?? "", second.message, shown]) {
    // deno-lint-ignore no-control-regex
    assert(!/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/.test(text), JSON.stringify(text));
  }
});

/**
 * A repository of the person that somebody else packed: opening it must run nothing.
 * @param trap receives the marker's path
 */
async function bringTrapped(trap: (marker: string) => string) {
  const world = await World.make();
  const marker = join(world.dir, "ran");
  await sh(
    world.person,
    "git init -q -b main; echo one >a.txt; git add -A; git commit -qm first; echo two >b.txt",
  );
  await sh(world.person, `${trap(marker)}; rm -f ${marker}; touch -d 2001-01-01 a.txt`);
  const failure = await world.bring().then(() => undefined, (error) => error);
  return { world, marker, failure };
}

Deno.test("CVE-2024-32004: a repository that fetches what it lacks, by its own program, runs none on its way in", async () => {
  const { world, marker } = await bringTrapped((marker) => `
    git config core.repositoryFormatVersion 1; git config extensions.partialClone origin; git config remote.origin.promisor true
    git config remote.origin.url "$PWD"; git config remote.origin.uploadpack 'touch ${marker}; false'
    id=$(git rev-parse HEAD:a.txt); rm -f .git/objects/$(printf %s $id | cut -c1-2)/$(printf %s $id | cut -c3-)`);
  await using _ = world;
  assertEquals(await exists(marker), false);
  await sh(world.person, "git show HEAD:a.txt 2>/dev/null || :");
  assertEquals(await exists(marker), true, "git alone falls into the trap");
});

Deno.test("CVE-2024-32465: hooks and programs that came with an unpacked repository are not run", async () => {
  const { world, marker, failure } = await bringTrapped((marker) => `
    for hook in post-index-change reference-transaction pre-auto-gc post-checkout; do
      printf '#!/bin/sh\\necho %s >>${marker}\\n' $hook >.git/hooks/$hook; chmod +x .git/hooks/$hook; done
    cp .git/hooks/post-checkout .git/pack; git config uploadpack.packObjectsHook "$PWD/.git/pack"
    git config core.fsmonitor "$PWD/.git/pack"; git config core.alternateRefsCommand "$PWD/.git/pack"`);
  await using _ = world;
  assertEquals([failure, await exists(marker)], [undefined, false]);
  assertEquals(await sh(world.inside, "cat a.txt b.txt; ls .git/hooks | grep -v sample || :"), "one\ntwo\n");
  await sh(world.person, "git status >/dev/null || :");
  assertEquals(await exists(marker), true, "git alone falls into the trap");
});

Deno.test("CVE-2025-59041: a repository's own user name and address are text, on the host and in the guest", async () => {
  const { world, marker, failure } = await bringTrapped((marker) => `
    git config user.email '"; touch ${marker}; $(touch ${marker})\`touch ${marker}\`@x'
    git config user.name "'; touch ${marker}; '"`);
  await using _ = world;
  assertEquals([failure, await exists(marker)], [undefined, false]);
  assertEquals(await git(world.inside, "config", "user.name"), `'; touch ${marker}; '`);
});

Deno.test("CVE-2024-32021: a link among a repository's objects takes no other file of the host along", async () => {
  const secret = `secret-${crypto.randomUUID()}`;
  const { world } = await bringTrapped(() => `
    echo ${secret} >../secret; mkdir -p .git/objects/ab; ln -s "$PWD/../secret" .git/objects/ab/${
    "c".repeat(38)
  }
    ln -s "$PWD/../secret" .git/objects/pack/pack-${
    "d".repeat(40)
  }.pack; ln -s "$PWD/../secret" .git/objects/info/x`);
  await using _ = world;
  const found = await sh(world.dir, `grep -rl ${secret} guest workspace room 2>/dev/null || :`);
  assertEquals(found, "");
  assertEquals(await sh(world.dir, "find guest workspace -samefile secret"), "");
});

Deno.test("CVE-2025-68143: a repository that the guest makes anywhere in its work brings no configuration out", async () => {
  await using world = await World.make();
  await sh(world.person, "mkdir sub; echo 1 >sub/a");
  await world.bring();
  const folders = ["sub", "sub/deep", "new"];
  for (const folder of folders) {
    await sh(
      world.inside,
      `mkdir -p ${folder}; cd ${folder}; git init -q -b x; git config core.fsmonitor id; git commit -qm x --allow-empty`,
    );
  }
  await sh(world.inside, "echo 2 >sub/a");
  await using work = await world.collect();
  assertEquals((await pullWork(work)).folder!.conflicts, ["new", "sub/deep"]);
  const landed = await sh(world.person, "find . -iname '.git*' -o -name config -o -name hooks");
  assertEquals(landed, "");
});
