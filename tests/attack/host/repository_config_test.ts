/** Programs that a repository's configuration names, and text for the terminal of the person. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { formatNotable, formatStat, patchText } from "../../../cmd/sbx/files/diff_text.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { changesOf, patchOf, pullWork } from "../../../lib/repo/mod.ts";
import { exists } from "../../helper/exists.ts";
import { bytesOf, everything, Forge, HostileGuest, take } from "../../helper/hostile_guest.ts";
import { git, sh, World } from "../../helper/repository.ts";

/**
 * Configuration, hooks and attributes with which nearly every git command would run
 * a program that writes a marker.
 */
function trap(marker: string, pattern: string): string {
  // Only where the pattern matches: git of the guest obeys its own configuration.
  const program = `f() { case "$PWD" in ${pattern}) echo ran >>${marker};; esac; cat; }; f`;
  return `
    for hook in post-checkout post-index-change reference-transaction pre-auto-gc post-merge pre-push post-rewrite; do
      printf '#!/bin/sh\\ncase "$PWD" in ${pattern}) echo %s >>${marker};; esac\\n' $hook >.git/hooks/$hook; chmod +x .git/hooks/$hook
    done
    printf '#!/bin/sh\\ncase "$PWD" in ${pattern}) echo fsmonitor >>${marker};; esac\\n' >.git/fsm; chmod +x .git/fsm
    git config core.fsmonitor "$PWD/.git/fsm"
    git config filter.x.clean '${program}'; git config filter.x.smudge '${program}'; git config filter.x.required true
    git config diff.x.textconv '${program}'; git config diff.x.command '${program}'; git config diff.external '${program}'
    git config core.pager '${program}'; git config core.sshCommand '${program}'; git config core.editor '${program}'
    git config core.alternateRefsCommand '${program}'; git config gpg.program '${program}'; git config commit.gpgSign true
    git config alias.status '!${program}'; git config credential.helper '!${program}'
    printf '* filter=x diff=x merge=x\\n' >.gitattributes`;
}

Deno.test("configuration, hooks, filters and attributes of the guest run nothing on the host, then or later", async () => {
  await using world = await World.ofRepository();
  const marker = `${world.dir}/ran`;
  await sh(
    world.inside,
    `${
      trap(marker, "*/person*|*/room*")
    }; echo two >>a.txt; git add -A; git -c commit.gpgSign=false commit -qm two; echo three >>a.txt`,
  );
  const config = await Deno.readTextFile(`${world.person}/.git/config`);
  const hooks = await sh(world.person, "ls .git/hooks");
  await using work = await world.collect();
  const changes = await changesOf(work.units[0]);
  assertEquals(changes.notable, [".gitattributes"]);
  assertEquals(formatNotable([changes]).slice(1), ["  git: .gitattributes"]);
  assertStringIncludes(await patchOf(work.units[0]), "+three");
  await pullWork(work);
  await sh(
    world.person,
    "git checkout -q sbx/demo; git status; git diff main | cat; git merge -q main; git gc -q",
  );
  assertEquals(await Deno.readTextFile(`${world.person}/.git/config`), config);
  assertEquals(await sh(world.person, "ls .git/hooks"), hooks);
  assertEquals(await exists(marker), false);
});

Deno.test("a repository of the host whose configuration came from a guest runs nothing on the way in and out", async () => {
  await using world = await World.make();
  const marker = `${world.dir}/ran`;
  await sh(
    world.person,
    "git init -q -b main; echo one >a.txt; git add -A; git commit -qm first; touch -d 2001-01-01 a.txt",
  );
  await sh(world.person, `${trap(marker, "*")}; rm -f ${marker}; echo two >b.txt`);
  await world.bring();
  await sh(world.inside, "echo three >b.txt; git add -A; git commit -qm three");
  await using work = await world.collect();
  await changesOf(work.units[0]);
  await pullWork(work);
  assertEquals(await exists(marker), false);
  assertEquals(await git(world.inside, "config", "--get", "core.fsmonitor").catch(() => "unset"), "unset");
  // The trap is one: git as everybody calls it falls into it.
  await sh(world.person, "git status >/dev/null || :");
  assertEquals(await exists(marker), true);
});

Deno.test("a submodule of the host whose configuration came from a guest runs nothing either", async () => {
  await using world = await World.make();
  const marker = `${world.dir}/ran`;
  await sh(
    world.dir,
    `git init -q -b main lib; cd lib; echo 1 >l.txt; git add .; git commit -qm lib; cd ../person; git init -q -b main; echo 1 >a
    git -c protocol.file.allow=always clone -q ../lib sub; git -c advice.addEmbeddedRepo=false add -A; git commit -qm super`,
  );
  await sh(`${world.person}/sub`, `${trap(marker, "*")}; rm -f ${marker}; touch l.txt`);
  await world.bring();
  await using work = await world.collect();
  await pullWork(work);
  assertEquals(await exists(marker), false);
});

Deno.test("a guest that exchanges, shortens or removes the bundle while it is read lands nothing", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tip = await forge.commit(await forge.tree([["100644", "a", await forge.blob("x".repeat(9000))]]));
  const other = await forge.commit(await forge.tree([["120000", "a", await forge.blob("/etc")]]));
  const [honest, evil] = [await forge.bundle(tip), await forge.bundle(other)];
  for (const at of [10, 60, 120, honest.length - 5]) {
    assertEquals(
      await take(world, tip, new Uint8Array([...honest.subarray(0, at), ...evil.subarray(at)])),
      "repo.refused",
    );
    assertEquals(await take(world, tip, honest.subarray(0, at)), "repo.refused");
  }
  const before = await everything(world.person);
  const gone = new HostileGuest(tip, bytesOf(honest));
  gone.download = () => Promise.reject(new SbxError("file.not_found", "gone"));
  const failure = await world.collect(gone).then(() => undefined, (error) => error.code);
  assertEquals(failure, "file.not_found");
  assertEquals(await everything(world.person), before);
});

Deno.test("names and messages of a guest move no cursor and add no line", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const blob = await forge.blob("\x1b]0;title\x07\x1b[2J‮\n");
  const tree = await forge.tree([["100644", "a\n\x1b[1Ab", blob], [
    "100644",
    new Uint8Array([0xff, 0x9b]),
    blob,
  ]]);
  const tip = await forge.commit(tree, undefined, "subject\x1b[2J\u202e\n\nbody");
  await using work = await world.collect(new HostileGuest(tip, bytesOf(await forge.bundle(tip))));
  const changes = await changesOf(work.units[0]);
  const output = formatStat([changes]) + patchText(await patchOf(work.units[0]));
  // deno-lint-ignore no-control-regex
  assert(!/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/.test(output));
  assertEquals(formatStat([changes]).split("\n").length, 1 + 3 + 1);
});

Deno.test("options, refs and paths in place of a branch's name make no branch", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, "echo two >a.txt");
  const before = await everything(world.person);
  await using work = await world.collect();
  for (
    const branch of [
      "--upload-pack=id",
      "-f",
      "../../config",
      "a..b",
      "x.lock",
      "@{u}",
      "a b",
      "refs/../x",
      "\n",
      "HEAD",
      "@",
      "",
    ]
  ) {
    const code = await pullWork(work, { branch }).then(() => "taken", (error) => error.code);
    assertEquals(code, "repo.branch_invalid", branch);
  }
  assertEquals(await everything(world.person), before);
});
