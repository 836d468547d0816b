import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type Deb, debianVersion, writeDeb } from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";
import { fromRoot } from "../../../helper/repo.ts";

const EPOCH = 1_764_000_000;
const DEB: Deb = {
  control: {
    Package: "sample",
    Version: "1.0",
    Architecture: "all",
    Maintainer: "nobody <nobody@example.com>",
    Description: "a sample\n Longer.",
  },
  scripts: { postinst: "#!/bin/sh\nset -e\n" },
  conffiles: ["/etc/sample"],
  files: [
    { path: "etc/sample", content: { text: "a\n" } },
    { path: "usr/bin/sample", content: { copyOf: fromRoot("scripts/root.sh") }, mode: 0o755 },
    { path: "usr/bin/other", content: { linkTo: "sample" } },
    { path: "usr/share/sample/data", content: { bytes: new Uint8Array(5000).fill(7) } },
  ],
  sourceDateEpoch: EPOCH,
};

async function withDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function output(program: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await runChild(program, { args, env: { TZ: "UTC", LC_ALL: "C" } });
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

Deno.test("a package has its files with their modes, owners, times and checksums", () =>
  withDir(async (dir) => {
    const path = await writeDeb(DEB, dir);
    assertEquals(path, join(dir, "sample_1.0_all.deb"));
    const lines = (await output("dpkg-deb", "-c", path)).trim().split("\n").map((line) => line.split(/\s+/));
    const files = lines.map(([mode, owner, , day, time, ...name]) =>
      [mode, owner, day, time, name.join(" ")].join(" ")
    );
    const at = "root/root 2025-11-24 16:00";
    assertEquals(files, [
      `drwxr-xr-x ${at} ./`,
      `drwxr-xr-x ${at} ./etc/`,
      `-rw-r--r-- ${at} ./etc/sample`,
      `drwxr-xr-x ${at} ./usr/`,
      `drwxr-xr-x ${at} ./usr/bin/`,
      `-rwxr-xr-x ${at} ./usr/bin/sample`,
      `drwxr-xr-x ${at} ./usr/share/`,
      `drwxr-xr-x ${at} ./usr/share/sample/`,
      `-rw-r--r-- ${at} ./usr/share/sample/data`,
      `lrwxrwxrwx ${at} ./usr/bin/other -> sample`,
    ]);
    assertEquals((await output("dpkg-deb", "-f", path, "Installed-Size")).trim(), "16");
    await output("dpkg-deb", "-R", path, join(dir, "tree"));
    const sums = await Deno.readTextFile(join(dir, "tree/DEBIAN/md5sums"));
    assertEquals(sums.split("\n").map((line) => line.split("  ")[1]), [
      "usr/bin/sample",
      "usr/share/sample/data",
      undefined,
    ] as string[]);
    assertEquals(await Deno.readTextFile(join(dir, "tree/DEBIAN/conffiles")), "/etc/sample\n");
    await output("sh", "-c", `cd ${join(dir, "tree")} && md5sum --check --quiet DEBIAN/md5sums`);
  }));

Deno.test("two builds of a package are equal, whatever the umask, time zone and folder", () =>
  withDir(async (dir) => {
    const built = async (name: string) => await Deno.readFile(await writeDeb(DEB, join(dir, name)));
    const first = await built("one");
    const umask = Deno.umask(0o077);
    try {
      assertEquals(await built("two/longer"), first);
    } finally {
      Deno.umask(umask);
    }
    const later = await Deno.readFile(
      await writeDeb({ ...DEB, sourceDateEpoch: EPOCH + 1 }, join(dir, "three")),
    );
    assertEquals(later.length === first.length && later.every((byte, at) => byte === first[at]), false);
  }));

Deno.test("a file that is not there is an error", () =>
  withDir(async (dir) => {
    const deb = { ...DEB, files: [{ path: "a", content: { copyOf: join(dir, "missing") } }] };
    const error = await assertRejects(() => writeDeb(deb, dir), SbxError);
    assertEquals(error.code, "package.file_missing");
  }));

Deno.test("a pre-release sorts before its release", async () => {
  assertEquals(["1.2.3", "1.2.3-rc.1", "1.2.3-a-b"].map(debianVersion), ["1.2.3", "1.2.3~rc.1", "1.2.3~a.b"]);
  await output("dpkg", "--compare-versions", debianVersion("1.2.3-rc.1"), "lt", "1.2.3");
});
