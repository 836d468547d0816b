/**
 * Workspaces whose owner works against the host: names, links, modes, sizes, and changes while they are read.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { limitChild } from "../../../helper/child.ts";
import { withSnapshots } from "../../../helper/snapshot.ts";
import { whileSwapped } from "../../../helper/swapped.ts";

Deno.test("every name that Linux allows is kept: 255 bytes, newlines, quotes, bytes that are not UTF-8", () =>
  withSnapshots(async ({ take, restore, sh, diff, store }) => {
    await sh(String.raw`
      long=$(printf 'x%.0s' $(seq 255)); mkdir "$long"; echo 1 >"$long/$long"
      echo 2 >$'line\nbreak'; echo 3 >$'\xff\xfe\x80 raw'; echo 4 >'"quoted"\'; echo 5 >$'\x1b[31m'; echo 6 >ümläut
      ln -s $'\xc3\x28' $'\xf0link'; mkdir $'\xe9'; echo 7 >$'\xe9/\xe9'; echo 8 >'-rf'; echo 9 >' '`);
    const digest = () =>
      sh("find . -print0 | sort -z | sha256sum; find . -type f -print0 | sort -z | xargs -0 cat");
    const before = await digest();
    const id = await take();
    await sh("find . -mindepth 1 -delete");
    assertEquals((await restore(id)).failed, []);
    assertEquals(await digest(), before);
    assertEquals(await diff(id), []);
    assertEquals((await store.list())[0].files, 9);
  }));

Deno.test("links are kept as links, and nothing outside is read, written or removed", () =>
  withSnapshots(async ({ take, restore, sh, outside, store }) => {
    await Deno.writeTextFile(join(outside, "secret"), "host");
    await sh(
      'ln -s "$1" out; ln -s "$1/secret" file; ln -s / root; ln -s self self; mkdir real; echo guest >real/x',
    );
    const id = await take();
    const [info] = await store.list();
    assertEquals([info.links, info.files], [4, 1]);
    // A folder of the snapshot is now a link that leads out.
    await sh('rm -rf real file; ln -s "$1" real');
    await restore(id);
    assertEquals(
      await sh("cat real/x; readlink out file root self"),
      `guest\n${outside}\n${outside}/secret\n/\nself\n`,
    );
    assertEquals(await Array.fromAsync(Deno.readDir(outside), ({ name }) => name), ["secret"]);
    assertEquals(await Deno.readTextFile(join(outside, "secret")), "host");
  }));

Deno.test("folders that are swapped for links while they are read and restored lead nowhere", () =>
  withSnapshots(async ({ take, restore, sh, outside, store, dir }) => {
    await Deno.writeTextFile(join(outside, "x"), "host secret");
    await sh("mkdir d; for i in $(seq 50); do echo guest$i >d/f$i; done; echo guest >d/x");
    const first = await take();
    await whileSwapped(join(dir, "../workspace"), outside, async () => {
      for (let i = 0; i < 8; i++) {
        await store.create({ kind: "auto", limits: { auto: 100, manual: 1 } });
        await restore(first, ["d"]);
      }
    });
    assertEquals(await sh('ls -A "$1"; cat "$1/x"'), "x\nhost secret");
    assertEquals(await sh(`grep -rl "host secret" ${dir}/objects || true`), "");
  }));

Deno.test("a hard link is read like any file, and the store shares none with the guest", () =>
  withSnapshots(async ({ take, restore, sh, dir }) => {
    await sh("echo 1 >a; ln a b");
    const id = await take();
    await sh("echo changed >a");
    assertEquals((await restore(id)).failed, []);
    assertEquals(await sh("cat a b"), "1\n1\n");
    assertEquals(await sh(`find ${dir} -type f -links +1`), "");
  }));

Deno.test("devices, pipes and sockets are named and left alone; a pipe without a writer holds nothing up", () =>
  withSnapshots(async ({ take, restore, sh, store, workspace }) => {
    await sh("mkfifo pipe; echo 1 >file; if [ $(id -u) = 0 ]; then mknod null c 1 3; else mkfifo null; fi");
    using _socket = Deno.listen({ transport: "unix", path: join(workspace, "socket") });
    const id = await take();
    const [info] = await store.list();
    assertEquals(info.left_out.map(({ path }) => path).sort(), ["null", "pipe", "socket"]);
    await sh("rm file");
    assertEquals((await restore(id)).failed, []);
    assertEquals(
      await sh("find . -type f; find . ! -type f ! -type d | sort"),
      "./file\n./null\n./pipe\n./socket\n",
    );
  }));

Deno.test("a sparse file of 1 TB takes no time and no room, and stays sparse", () =>
  withSnapshots(async ({ take, restore, sh, dir, diff }) => {
    await sh(
      `truncate -s 1T big; printf middle | dd of=big bs=1 seek=549755813888 conv=notrunc,nocreat status=none
      truncate -s 3M holes; printf end | dd of=holes bs=1 seek=3145725 conv=notrunc,nocreat status=none`,
    );
    const id = await take();
    await sh("rm big holes");
    assertEquals((await restore(id)).failed, []);
    assertEquals(
      await sh("stat -c %s big holes; dd if=big bs=1 skip=549755813888 count=6 status=none; tail -c 3 holes"),
      "1099511627776\n3145728\nmiddleend",
    );
    assert(Number(await sh(`du -sk . ${dir} | awk '{s += $1} END {print s}'`)) < 4096);
    assertEquals(await diff(id), []);
  }));

Deno.test("files of 1 MB and more are whole, and a changed byte in them is found", () =>
  withSnapshots(async ({ take, restore, sh, diff }) => {
    await sh("head -c 3000001 /dev/urandom >big; cp big ../copy");
    const id = await take();
    await sh("printf x | dd of=big bs=1 seek=2999999 conv=notrunc,nocreat status=none; printf y >>big");
    assertEquals(await diff(id), ["modified big"]);
    assertEquals((await restore(id)).failed, []);
    await sh("cmp big ../copy");
  }));

Deno.test("set-user-id bits are dropped, and a file of mode 0000 keeps its mode", () =>
  withSnapshots(async ({ take, restore, sh, store }) => {
    await sh("echo 1 >suid; chmod 6755 suid; mkdir t; chmod 3777 t; echo 2 >none; chmod 0 none");
    const id = await take();
    await sh("rm -rf suid t none");
    await restore(id);
    // Only root reads what its owner may not: for others it is named and left out.
    const none = Deno.uid() === 0 ? "none 0\n" : "";
    assertEquals(await sh("stat -c '%n %a' *"), `${none}suid 755\nt 1777\n`);
    assertEquals((await store.list())[0].left_out_count, Deno.uid() === 0 ? 0 : 1);
  }));

Deno.test("a file that is written all the time is kept and marked", () =>
  withSnapshots(async ({ store, workspace, limits }) => {
    const file = join(workspace, "busy");
    await Deno.writeFile(file, new Uint8Array(8 * 1024 * 1024).fill(1));
    const writer = limitChild(
      new Deno.Command("bash", {
        args: [
          "-c",
          'while :; do printf x | dd of="$1" bs=1 seek=100 conv=notrunc,nocreat status=none; done',
          "sh",
          file,
        ],
        stdout: "null",
        stderr: "null",
      }).spawn(),
    );
    try {
      // A machine that is busy with other things may keep the writer waiting for a whole read.
      let changing = 0;
      for (let i = 0; i < 50 && changing === 0; i++) {
        const made = await store.create({ kind: "manual", limits: { ...limits, manual: 100 } });
        assertEquals([made!.files, made!.bytes], [1, 8 * 1024 * 1024]);
        changing = made!.changing;
      }
      assertEquals(changing, 1);
    } finally {
      writer.kill("SIGKILL");
      await writer.status;
    }
  }));

Deno.test("folders too deep for a path are named, and what is above them is kept", () =>
  withSnapshots(async ({ take, store, sh }) => {
    await sh(
      `echo 1 >top; name=$(printf 'd%.0s' $(seq 250)); for i in $(seq 20); do mkdir $name; cd $name; done`,
    );
    await take();
    const [info] = await store.list();
    assertEquals([info.files, info.left_out_count > 0], [1, true]);
    await sh("for i in $(seq 20); do d=$(echo d*); mv $d ../deep-$i 2>/dev/null || true; done; rm -rf d*");
  }));
