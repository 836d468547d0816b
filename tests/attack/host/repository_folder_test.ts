/** A folder without a repository: what a guest made of it, and what the person did meanwhile. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { pullWork } from "../../../lib/repo/mod.ts";
import { listing, sh, World } from "../../helper/repository.ts";

async function pull(world: World) {
  await using work = await world.collect();
  return (await pullWork(work)).folder!;
}

async function ofFolder(script: string): Promise<World> {
  const world = await World.make();
  await sh(world.person, script);
  await world.bring();
  return world;
}

Deno.test("a folder goes in with links, modes and times, and its changes come back", async () => {
  await using world = await ofFolder(
    "mkdir -p a/b; echo 1 >a/b/f; ln -s b/f a/l; echo x >run; chmod 755 run; touch -d 2001-02-03 run; echo gone >gone; echo .env >.gitignore; echo s >.env",
  );
  assertEquals(
    await sh(world.inside, "stat -c %Y run; readlink a/l; ls -A"),
    await sh(world.person, "stat -c %Y run; readlink a/l; ls -A | grep -v '^.env$'"),
  );
  await sh(
    world.inside,
    "echo 2 >a/b/f; rm gone; mkdir new; printf '\\r\\n\\0' >new/bin; ln -s ../run new/l; chmod +x a/b/f; rm a/l; mkdir a/l; echo y >a/l/in",
  );
  const { written, removed, conflicts } = await pull(world);
  assertEquals([written.toSorted(), removed, conflicts], [["a/b/f", "a/l/in", "new/bin", "new/l"], [
    "a/l",
    "gone",
  ], []]);
  await sh(world.person, "rm .env");
  assertEquals(await listing(world.person), await listing(world.inside));
  await sh(world.inside, "echo 3 >a/b/f");
  assertEquals((await pull(world)).written, ["a/b/f"]);
  await sh(world.person, "echo 4 >a/b/f");
  await world.bring();
  assertEquals(await listing(world.inside), await listing(world.person));
});

Deno.test("what the person changed too stays as it is and is named, the rest comes", async () => {
  await using world = await ofFolder("echo 1 >a; echo 1 >b; echo 1 >c; echo 1 >d; mkdir k; echo 1 >k/x");
  await sh(world.inside, "echo 2 >a; echo 2 >b; rm c; rm d; echo 2 >new; echo 2 >k/x");
  await sh(world.person, "echo mine >a; echo mine >c; echo 2 >b; echo mine >new; rm -r k; echo file >k");
  const { written, removed, conflicts } = await pull(world);
  assertEquals([written, removed, conflicts.toSorted()], [[], ["d"], ["a", "c", "k/x", "new"]]);
  assertEquals(await sh(world.person, "cat a b c k new"), "mine\n2\nmine\nfile\nmine\n");
});

Deno.test("a file is never written or removed through a link of the host", async () => {
  await using world = await ofFolder("mkdir d e; echo 1 >d/f; echo 1 >e/f; echo 1 >g");
  await sh(
    world.dir,
    "mkdir out; echo precious >out/f; rm -r person/d person/e; ln -s ../out person/d; ln -s ../out person/e; rm person/g; ln -s ../out/f person/g",
  );
  await sh(world.inside, "echo evil >d/f; echo evil >d/new; rm e/f; echo evil >g");
  const { conflicts } = await pull(world);
  assertEquals(conflicts.toSorted(), ["d/f", "d/new", "e/f", "g"]);
  assertEquals(await sh(world.dir, "cat out/f; ls out"), "precious\nf\n");
});

Deno.test("a link out, .git, a set-user-id bit, a device and a foreign owner do not land", async () => {
  await using world = await ofFolder("echo 1 >a; echo 1 >s");
  await sh(
    world.inside,
    "chmod 6755 s; chmod 777 a; mkfifo pipe; mknod dev c 1 3 2>/dev/null || :; chown 12345 a 2>/dev/null || :",
  );
  await pull(world);
  assertEquals(
    await sh(world.person, "stat -c '%a %u %F' a s; ls -A"),
    `755 ${Deno.uid()} regular file\n755 ${Deno.uid()} regular file\na\ns\n`,
  );
  await sh(world.inside, "ln -s /etc/passwd l");
  assertEquals((await assertRejects(() => pull(world), SbxError)).code, "repo.refused");
  await sh(
    world.inside,
    "rm l; mkdir sub; cd sub; git init -q; echo x >x; git add x; git commit -qm x; git config core.fsmonitor id",
  );
  assertEquals((await pull(world)).conflicts, ["sub"]);
  assertEquals(await sh(world.person, "ls -A"), "a\ns\n");
});

Deno.test("a name or target that begins with a mark of byte order is that name, or is refused", async () => {
  await using world = await ofFolder("echo 1 >a");
  await sh(world.dir, "echo precious >out");
  const inside = (path: string) => `${world.inside}/${path}`;
  for (const target of ["\ufeff/etc/passwd", "\ufeff..", "\ufeff../out"]) {
    await Deno.symlink(target, inside("l"));
    await pull(world);
    assertEquals(await Deno.readLink(`${world.person}/l`), target, "it leads where it was checked to lead");
    await Deno.remove(inside("l"));
    await pull(world);
  }
  await Deno.mkdir(inside("\ufeff.github"));
  await Deno.mkdir(inside("\ufeff.."));
  for (const path of ["\ufeff.envrc", "\ufeffa", "\ufeff.github/x", "\ufeff../out"]) {
    await Deno.writeTextFile(inside(path), "2\n");
  }
  await Deno.symlink("x", inside("\ufeff.gitattributes"));
  assertEquals((await pull(world)).conflicts, []);
  assertEquals(await listing(world.person), await listing(world.inside));
  assertEquals(
    await sh(world.dir, "cat out person/a; ls -A person | grep -c '^[.]' || :"),
    "precious\n1\n0\n",
  );
});

Deno.test("a name and a target that are not UTF-8 do not land under another name", async () => {
  await using world = await ofFolder("echo 1 >a");
  await sh(world.inside, "echo 2 >$(printf 'b\\377'); echo 2 >$(printf 'b\\357\\277\\275')");
  const { message } = await assertRejects(() => pull(world), SbxError);
  assertEquals(message.includes('"b\\xff" cannot be written: its name is not UTF-8'), true, message);
  await sh(world.inside, "rm b*; ln -s $(printf 'c\\377') l");
  assertEquals((await assertRejects(() => pull(world), SbxError)).code, "repo.refused");
  assertEquals(await sh(world.person, "ls -A"), "a\n");
});
