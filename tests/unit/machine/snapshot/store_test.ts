import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type SnapshotWorld, withSnapshots } from "../../../helper/snapshot.ts";

const code = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;
const auto = ({ store, limits }: SnapshotWorld) => store.create({ kind: "auto", limits });

Deno.test("a snapshot has files, folders and links, and what it has is put back", () =>
  withSnapshots(async ({ take, restore, sh, store, workspace }) => {
    await sh(
      `mkdir -p src/deep empty; echo one >src/a; echo two >src/deep/b; chmod 755 src/a; ln -s src/a link
      touch -d @1000000000.123456789 src/deep/b; chmod 500 empty`,
    );
    const seen = () =>
      sh("find . -mindepth 1 -printf '%p %y %m %s %l ' -type f -printf '%T@' -o -printf '' | sort");
    const before = await seen();
    const id = await take("first");
    await sh("rm -rf src link empty; echo new >src");
    const { failed, changes } = await restore(id);
    assertEquals([failed, changes.length], [[], 6]);
    assertEquals(await seen(), before);
    assertEquals(await sh("find . -name '.sbx-*'"), "");
    const [info] = await store.list();
    assertEquals([info.label, info.files, info.folders, info.links, info.bytes], ["first", 2, 3, 1, 8]);
    assertEquals(await Deno.readTextFile(join(workspace, "src/a")), "one\n");
  }));

Deno.test("a restore can be undone, also of files that came later", () =>
  withSnapshots(async ({ take, restore, put, sh, diff }) => {
    await put("kept", "1");
    const id = await take();
    await put("kept", "22");
    await put("new", "3");
    const { before } = await restore(id);
    assertEquals(await sh("ls; cat kept"), "kept\n1");
    assertEquals(await diff(id), []);
    await restore(before.id);
    assertEquals(await sh("ls; cat kept new"), "kept\nnew\n223");
  }));

Deno.test("a restore of some paths leaves the others", () =>
  withSnapshots(async ({ take, restore, sh }) => {
    await sh("mkdir a ab; echo 1 >a/x; echo 1 >ab/x; echo 1 >top");
    const id = await take();
    await sh("echo changed | tee a/x ab/x top; echo new >a/new");
    await restore(id, ["a"]);
    assertEquals(await sh("cat a/x ab/x top; ls a"), "1\nchanged\nchanged\nx\n");
  }));

Deno.test("a diff names what was created, deleted, modified and made executable", () =>
  withSnapshots(async ({ take, diff, sh }) => {
    await sh("echo 1 >gone; echo 1 >edited; echo 1 >mode; echo 1 >same; ln -s a link; mkdir turned");
    const first = await take();
    await sh(
      "rm gone; echo 2 >edited; chmod 755 mode; touch same; ln -sfn b link; rmdir turned; echo >turned; >made",
    );
    const expected = [
      "modified edited",
      "deleted gone",
      "modified link",
      "created made",
      "mode mode",
      "modified turned",
    ];
    assertEquals(await diff(first), expected);
    const second = await take();
    assertEquals(await diff(first, second), expected);
    assertEquals(await diff(second), []);
  }));

Deno.test("contents are kept once, and go with the last snapshot that has them", () =>
  withSnapshots(async ({ take, sh, store, objects }) => {
    await sh("echo same >a; echo same >b; echo other >c");
    const first = await take();
    assertEquals((await objects()).length, 2);
    await sh("rm c; echo third >d");
    const second = await take();
    assertEquals((await objects()).length, 3);
    await store.remove(first);
    assertEquals((await objects()).length, 2);
    await store.remove(second);
    assertEquals(await objects(), []);
    assertEquals(await code(() => store.remove(second)), "snapshot.not_found");
    assertEquals(await code(() => store.remove("../../../etc")), "snapshot.not_found");
  }));

Deno.test("a file written again at once with the same size is read again", () =>
  withSnapshots(async ({ take, put, sh, diff }) => {
    await put("a", "one");
    const ids = [await take()];
    for (const text of ["two", "six", "ten"]) {
      // In place, with its time of modification put back: only the time of its change tells.
      await sh(`touch -r a ../time; printf ${text} >a; touch -r ../time a`);
      ids.push(await take());
    }
    for (let i = 1; i < ids.length; i++) assertEquals(await diff(ids[i - 1], ids[i]), ["modified a"]);
  }));

Deno.test("an automatic snapshot is made only when something changed; the oldest go, manual ones stay", () =>
  withSnapshots(async (world) => {
    const { put, take, store } = world;
    await put("a", "0");
    const manual = await take("mine");
    assertEquals(await auto(world), undefined);
    const ids = [];
    for (const text of ["1", "2", "3", "4"]) {
      await put("a", text);
      ids.push((await auto(world))!.id);
      assertEquals(await auto(world), undefined);
    }
    const kept = (await store.list()).map(({ id }) => id);
    assertEquals(kept, [manual, ...ids.slice(-2)]);
    assertEquals((await world.objects()).length, 3);
  }, { limits: { auto: 2, manual: 2 } }));

Deno.test("a manual snapshot over the limit is refused with what to do", () =>
  withSnapshots(async ({ take, store }) => {
    await take();
    const error = await assertRejects(() => take(), SbxError);
    assertEquals(error.code, "snapshot.limit");
    assert(error.hint?.includes("vm.snapshots.manual_max"));
    assertEquals((await store.list()).length, 1);
  }, { limits: { auto: 1, manual: 1 } }));

Deno.test("a restore never removes the snapshot that it restores", () =>
  withSnapshots(async (world) => {
    const { put, restore, store, sh } = world;
    await put("a", "1");
    const { id } = (await auto(world))!;
    await put("a", "2");
    const { before } = await restore(id);
    assertEquals(await sh("cat a"), "1");
    assertEquals((await store.list()).map((each) => each.id), [id, before.id]);
  }, { limits: { auto: 1, manual: 1 } }));

Deno.test("two snapshots at once take turns, and both are whole", () =>
  withSnapshots(async (world) => {
    const { take, sh, diff, store, dir, workspace, limits } = world;
    await sh("for i in $(seq 200); do echo $i >f$i; done");
    // As another process would: a store of its own.
    const other =
      new (store.constructor as typeof import("../../../../lib/machine/snapshot/mod.ts").SnapshotStore)(
        dir,
        workspace,
        0,
      );
    const [a, b] = await Promise.all([take(), other.create({ kind: "manual", limits })]);
    assertNotEquals(a, b!.id);
    assertEquals(await diff(a, b!.id), []);
    assertEquals((await world.objects()).length, 200);
  }));

Deno.test("damage is found: a content that changed is not restored, a manifest that changed is not read", () =>
  withSnapshots(async ({ take, restore, put, sh, dir, store }) => {
    await put("a", "good");
    await put("b", "fine");
    const id = await take();
    await sh("rm a b");
    const { before } = await restore(id);
    await sh("rm a b");
    const [path] = (await sh(`grep -rl good ${dir}/objects`)).trim().split("\n");
    await Deno.writeTextFile(path, "evil");
    const { failed } = await restore(id);
    assertEquals(failed.map(({ path }) => path), ["a"]);
    assertEquals(await sh("ls -A"), "b\n");
    const manifest = join(dir, `${id}.manifest`);
    await Deno.writeTextFile(manifest, (await Deno.readTextFile(manifest)).replace('"a"', '"../a"'));
    assertEquals(await code(() => restore(id)), "snapshot.damaged");
    assertEquals(await code(() => store.diff(id, before.id)), "snapshot.damaged");
  }));
