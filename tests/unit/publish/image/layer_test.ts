/** The layer of sbx's programs, and the root file systems under it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { INIT } from "../../../../lib/publish/image/init.ts";
import { REDIRECTED } from "../../../../lib/publish/image/layer.ts";
import { LAYER_PATH, RUNTIMES_PATH } from "../../../../lib/machine/guest/wire/mod.ts";

Deno.test("a stand-in for a file of the C library has a path of the same length, in the layer", () => {
  for (const [from, to] of REDIRECTED) {
    assertEquals([to.length, to.startsWith(`${LAYER_PATH}/`)], [from.length, true], to);
  }
});

/** Completes a root file system as init does. @returns the line with which init would give up */
async function furnish(root: string): Promise<string> {
  const furnish = /^furnish\(\) \{\n[^]*?^\}/m.exec(INIT)![0];
  const script = `die() { echo "$1"; exit 1; }\n${furnish}\nfurnish "$0"`;
  const { stdout } = await new Deno.Command("sh", { args: ["-c", script, root], stderr: "null" }).output();
  return new TextDecoder().decode(stdout);
}

async function withRoot(test: (root: string, outside: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    for (const name of ["root", "outside"]) await Deno.mkdir(join(dir, name));
    await test(join(dir, "root"), join(dir, "outside"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const namesIn = async (dir: string) => (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).sort();

Deno.test("an empty root file system gets mount points, names and a resolver", () =>
  withRoot(async (root) => {
    assertEquals(await furnish(root), "");
    assertEquals(await namesIn(root), [
      "dev",
      "etc",
      "mnt",
      "proc",
      "root",
      "run",
      "sys",
      "tmp",
      "usr",
      "workspace",
    ]);
    assertEquals((await Deno.stat(join(root, "tmp"))).mode! & 0o7777, 0o1777);
    assertStringIncludes(
      await Deno.readTextFile(join(root, "etc/resolv.conf")),
      "nameserver 192.0.2.53\noptions",
    );
    assertStringIncludes(await Deno.readTextFile(join(root, "etc/passwd")), "root:x:0:0:");
    await Deno.writeTextFile(join(root, "etc/passwd"), "mine");
    await furnish(root);
    assertEquals(await Deno.readTextFile(join(root, "etc/passwd")), "mine", "what it has stays");
  }));

/** Writes podman's configuration as init does. */
async function runtimes(root: string): Promise<void> {
  const script = /^runtimes\(\) \{\n[^]*?^\}/m.exec(INIT)![0];
  const args = ["-c", `cd "$0" || exit 1\n${script}\nruntimes`, root];
  await new Deno.Command("sh", { args, stderr: "null" }).output();
}

Deno.test("podman and buildah get the runtimes of the layer that the image has, and no link is followed", () =>
  withRoot(async (root, outside) => {
    for (const folder of ["etc", "usr/bin"]) await Deno.mkdir(join(root, folder), { recursive: true });
    await Deno.writeTextFile(join(root, "usr/bin/crun"), "", { mode: 0o755 });
    const folder = join(root, "etc/containers/containers.conf.d");
    const expected = `[engine.runtimes]\ncrun = ['${RUNTIMES_PATH}/crun']\n` +
      `[engine]\nruntime = '${RUNTIMES_PATH}/crun'\n`;
    await runtimes(root);
    assertEquals(await Deno.readTextFile(join(folder, "sbx.conf")), expected);
    await Deno.mkdir(join(root, "usr/sbin"));
    // Debian's is a link of its alternatives.
    await Deno.symlink("/etc/alternatives/iptables", join(root, "usr/sbin/iptables"));
    await runtimes(root);
    const driver = "[network]\nfirewall_driver = 'iptables'\n";
    assertEquals(await Deno.readTextFile(join(folder, "sbx.conf")), expected + driver);
    await Deno.writeTextFile(join(outside, "file"), "mine");
    await Deno.remove(join(folder, "sbx.conf"));
    await Deno.symlink(join(outside, "file"), join(folder, "sbx.conf"));
    await Deno.writeTextFile(join(root, "usr/bin/runc"), "", { mode: 0o755 });
    await runtimes(root);
    assertEquals(await Deno.readTextFile(join(outside, "file")), "mine");
    assertEquals(
      await Deno.readTextFile(join(folder, "sbx.conf")),
      (expected + driver).replace(
        "[engine.runtimes]\n",
        `[engine.runtimes]\nrunc = ['${RUNTIMES_PATH}/runc']\n`,
      ),
    );
    await Deno.remove(join(root, "etc/containers"), { recursive: true });
    await Deno.symlink(outside, join(root, "etc/containers"));
    await runtimes(root);
    assertEquals(await namesIn(outside), ["file"]);
  }));

Deno.test("no link of a root file system is followed", () =>
  withRoot(async (root, outside) => {
    for (const folder of ["etc", "usr/lib"]) await Deno.mkdir(join(root, folder), { recursive: true });
    await Deno.writeTextFile(join(outside, "file"), "untouched");
    for (const name of ["dev", "mnt", "tmp", "workspace", "usr/lib/sbx"]) {
      await Deno.symlink(outside, join(root, name));
    }
    for (const name of ["hosts", "resolv.conf", "passwd", "hostname", "machine-id"]) {
      await Deno.symlink(join(outside, "file"), join(root, "etc", name));
    }
    assertEquals(await furnish(root), "");
    assertEquals([await namesIn(outside), await Deno.readTextFile(join(outside, "file"))], [
      ["file"],
      "untouched",
    ]);
    for (const name of ["dev", "mnt", "tmp", "workspace", "usr/lib/sbx"]) {
      assertEquals((await Deno.lstat(join(root, name))).isDirectory, true, name);
    }
    for (const name of ["etc", "usr"]) {
      await Deno.remove(join(root, name), { recursive: true });
      await Deno.symlink(outside, join(root, name));
      assertEquals(await furnish(root), `the root file system has a link in place of /${name}\n`);
      await Deno.remove(join(root, name));
      await Deno.mkdir(join(root, name));
    }
    assertEquals(await namesIn(outside), ["file"]);
  }));

Deno.test("init waits for no pipe that a root file system has in place of a file", () =>
  withRoot(async (root) => {
    const names = ["group", "hostname", "hosts", "machine-id", "passwd", "resolv.conf"];
    await Deno.mkdir(join(root, "etc"));
    await new Deno.Command("mkfifo", { args: names.map((name) => join(root, "etc", name)) }).output();
    assertEquals(await furnish(root), "");
    for (const name of await namesIn(join(root, "etc"))) {
      assertEquals((await Deno.lstat(join(root, "etc", name))).isFile, true, name);
    }
  }));

Deno.test("programs of sbx have no home in the root file system, whose .npmrc Deno would read", () => {
  assertStringIncludes(INIT, `env -i HOME=${LAYER_PATH} `);
});
