/** sbx outside of Debian: an rpm as rpm reads it, and the tarball's life by its installer. */
import { assert, assertEquals } from "@std/assert";
import { basename, join } from "node:path";
import {
  nixExpression,
  pkgbuild,
  sbxDeb,
  writeRpm,
  writeTarball,
} from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";

const ARCH = Deno.build.arch === "aarch64" ? "arm64" : "amd64";

async function withPackage(
  run: (
    dir: string,
    make: (version: string, program?: string) => Promise<ReturnType<typeof sbxDeb>>,
  ) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir, async (version, program = `echo ${version}`) => {
      const path = join(dir, `program-${version}`);
      await Deno.writeTextFile(path, `#!/bin/sh\n${program}\n`);
      return sbxDeb({
        ...{ version, arch: ARCH, maintainer: "a <a@example.com>", program: path },
        vsock: { program: path, builtUsing: "vsock (= 1)" },
        completions: { bash: "b", zsh: "z", fish: "f" },
        manuals: { sbx: "m" },
        ...{ notices: "n", readme: "r", changelog: "c", sbom: "s", sourceDateEpoch: 1_764_000_000 },
      });
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function sh(script: string, ...args: string[]) {
  const { success, stdout, stderr } = await runChild("sh", { args: ["-c", script, "sh", ...args] });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
  return { success, stdout: text(stdout), stderr: text(stderr) };
}

Deno.test("the tarball is equal twice, installs, upgrades and removes its own files alone", async () => {
  await withPackage(async (dir, make) => {
    const [first, again] = [
      await writeTarball(await make("1.0.0"), join(dir, "out")),
      await writeTarball(await make("1.0.0"), join(dir, "again")),
    ];
    assertEquals(first.sha256, again.sha256);
    const newer = await writeTarball(await make("1.1.0-rc.1"), join(dir, "out"));
    const prefix = join(dir, "prefix");
    await Deno.mkdir(join(prefix, "bin"), { recursive: true });
    await Deno.writeTextFile(join(prefix, "bin/mine"), "mine");
    const install = (path: string, ...more: string[]) =>
      sh(
        'cd "$1" && tar -xf "$2" && shift 2 && "./$@"',
        dir,
        path,
        `${basename(path, ".tar.xz")}/install.sh`,
        "--prefix",
        prefix,
        ...more,
      );
    const done = await install(first.path);
    assert(done.success, done.stderr);
    assertEquals((await sh('"$1"', join(prefix, "bin/sbx-service"))).stdout, "1.0.0");
    const unit = await Deno.readTextFile(join(prefix, "lib/systemd/user/sbx.service"));
    assert(unit.includes(`ExecStart=${prefix}/bin/sbx-service`), unit);
    // What a version before had, and this one has not, goes.
    await Deno.writeTextFile(join(prefix, "share/sbx/installed-files"), "bin/gone\n", { append: true });
    await Deno.writeTextFile(join(prefix, "bin/gone"), "");
    assert((await install(newer.path)).success);
    assertEquals((await sh('"$1"', join(prefix, "bin/sbx"))).stdout, "1.1.0-rc.1");
    assert(!(await sh('[ -e "$1" ]', join(prefix, "bin/gone"))).success);
    assert((await install(newer.path, "--remove")).success);
    const left = await sh('cd "$1" && find . ! -type d', prefix);
    assertEquals(left.stdout, "./bin/mine");
    const twice = await install(newer.path, "--remove");
    assertEquals([twice.success, twice.stderr.includes("nothing was installed here")], [false, true]);
  });
});

Deno.test("what root installs is for everybody to run and for root to write, whatever root's umask", async () => {
  await withPackage(async (dir, make) => {
    const { path } = await writeTarball(await make("1.0.0"), dir);
    const name = basename(path, ".tar.xz");
    for (const umask of ["077", "000"]) {
      const prefix = join(dir, `prefix-${umask}`);
      const done = await sh(
        'umask "$1" && cd "$(mktemp -d -p "$2")" && tar -xJf "$3" && "./$4/install.sh" --prefix "$5"',
        umask,
        dir,
        path,
        name,
        prefix,
      );
      assert(done.success, done.stderr);
      const wrong = await sh(
        'find "$1" ! -type l \\( -perm /022 -o ! -perm -044 -o -type d ! -perm -011 \\)',
        prefix,
      );
      assertEquals(wrong.stdout, "", umask);
      assert((await sh('[ "$(stat -c %a "$1")" = 755 ]', join(prefix, "bin/sbx"))).success);
    }
  });
});

Deno.test("Arch's and Nix's files name the tarball by address and sum", async () => {
  await withPackage(async (dir, make) => {
    const deb = await make("1.1.0-rc.1");
    const tarball = await writeTarball(deb, dir);
    const published = { url: "https://example.com/sbx", tarballs: [{ arch: ARCH, tarball }] } as const;
    const path = join(dir, "PKGBUILD");
    await Deno.writeTextFile(path, pkgbuild(deb, { ...published, tarballs: [...published.tarballs] }));
    const machine = ARCH === "amd64" ? "x86_64" : "aarch64";
    const read = await runChild("bash", {
      args: [
        "-euc",
        `. "$1"; eval "echo \\$pkgver \\\${source_${machine}[0]} \\\${sha256sums_${machine}[0]}"`,
        "bash",
        path,
      ],
    });
    const url = `https://example.com/sbx/${basename(tarball.path)}`;
    assertEquals(new TextDecoder().decode(read.stdout).trim(), `1.1.0_rc.1 ${url} ${tarball.sha256}`);
    const nix = nixExpression(deb, { ...published, tarballs: [...published.tarballs] });
    assert(nix.includes(`url = "${url}"`) && nix.includes(`sha256 = "${tarball.sha256}"`), nix);
  });
});

const rpm = await sh("command -v rpmbuild && command -v rpm");

Deno.test({
  name: "the rpm is equal twice, and has files, scripts and needs as rpm reads them",
  ignore: !rpm.success,
  fn: async () => {
    await withPackage(async (dir, make) => {
      const deb = await make("1.0.0-rc.1");
      const [path, again] = [await writeRpm(deb, join(dir, "out")), await writeRpm(deb, join(dir, "again"))];
      assertEquals(await Deno.readFile(path), await Deno.readFile(again));
      const ask = async (...args: string[]) => (await sh('rpm -qp "$@"', ...args, path)).stdout;
      const files = (await ask("-l")).split("\n");
      for (const file of ["/usr/bin/sbx", "/usr/bin/sbx-service", "/usr/share/zsh/site-functions/_sbx"]) {
        assert(files.includes(file), files.join(" "));
      }
      assert(!files.some((file) => file.includes("lintian")));
      assertEquals(
        await ask("--qf", "%{NAME} %{VERSION} %{LICENSE}"),
        "sbx 1.0.0~rc.1 Apache-2.0 AND MIT AND ISC AND BSD-3-Clause",
      );
      assert((await ask("--requires")).split("\n").includes("virtiofsd"));
      const scripts = await ask("--scripts");
      for (const part of ["postinstall", "preuninstall", "update-assets", "set -- remove"]) {
        assert(scripts.includes(part), part);
      }
    });
  },
});
