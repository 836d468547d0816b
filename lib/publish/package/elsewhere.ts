/**
 * sbx outside of Debian: an rpm, a tarball with its installer, and the files with which Arch and Nix make
 * packages of that tarball (docs/guides/packages.md, "Other distributions").
 */
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { type Deb, type PackageFile, runTool, writeTree } from "./deb.ts";
import { FETCH_ASSETS, POSTRM, PRERM } from "./script.ts";

/** Architectures as Debian names them, and as everybody else does. */
const ARCHES: Record<string, string> = { amd64: "x86_64", arm64: "aarch64" };

/** Fedora's names of what runs VMs, by the architecture of the host. */
const RPM_QEMU: Record<string, string> = { amd64: "qemu-system-x86-core", arm64: "qemu-system-aarch64-core" };

/** Files of Debian's package that mean nothing elsewhere, and the places of others there. */
function filesElsewhere({ files }: Deb): PackageFile[] {
  return files.filter(({ path }) => !/^usr\/share\/lintian\/|^etc\/needrestart\/|\/changelog\.gz$/.test(path))
    .map((file) => ({
      ...file,
      path: file.path.replace("usr/share/zsh/vendor-completions/", "usr/share/zsh/site-functions/")
        .replace(/^usr\/share\/doc\/sbx\/copyright$/, "usr/share/licenses/sbx/LICENSE"),
    }));
}

/**
 * The version with a form that all of them take: a pre-release sorts before its
 * release by `~`, which Arch has not.
 */
const versionOf = ({ control }: Deb) => control.Version;

/**
 * Builds an rpm with rpmbuild. The same input gives the same bytes.
 *
 * @returns its path
 * @throws {SbxError} `package.tool_missing`, `package.tool_failed`, `package.file_missing`
 */
export async function writeRpm(deb: Deb, out: string): Promise<string> {
  await Deno.mkdir(out, { recursive: true });
  const work = await Deno.makeTempDir({ prefix: "sbx-rpm-" });
  try {
    const files = filesElsewhere(deb);
    await writeTree(join(work, "tree"), files, deb.sourceDateEpoch);
    const spec = join(work, "sbx.spec");
    await Deno.writeTextFile(spec, specOf(deb, files, join(work, "tree")));
    const arch = ARCHES[deb.control.Architecture];
    const name = `sbx-${versionOf(deb)}-1.${arch}.rpm`;
    await runTool([
      "rpmbuild",
      "-bb",
      "--quiet",
      `--target=${arch}`,
      "--define",
      `_topdir ${work}`,
      "--define",
      `_rpmdir ${work}/out`,
      "--define",
      "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
      spec,
    ], { doing: `building ${name}`, env: { SOURCE_DATE_EPOCH: `${deb.sourceDateEpoch}`, HOME: work } });
    const path = join(out, name);
    await Deno.copyFile(join(work, "out", name), path);
    await Deno.chmod(path, 0o644);
    return path;
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** A maintainer script of Debian's, for rpm's last removal. */
const atRemoval = (script: string, word: string) =>
  `if [ "$1" -eq 0 ]; then\nset -- ${word}\n${script.replace(/^#!.*\n/, "")}fi\n`;

function specOf(deb: Deb, files: readonly PackageFile[], tree: string): string {
  const { control } = deb;
  const [summary, ...description] = control.Description.split("\n");
  const listed = files.map(({ path }) => {
    const mark = path.startsWith("usr/share/doc/")
      ? "%doc "
      : path.startsWith("usr/share/licenses/")
      ? "%license "
      : "";
    return `${mark}/${path}`;
  });
  return `# The SBOM lists the contents of the program; its libraries come with it.
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _buildhost sbx
%global _binary_payload w2.xzdio
Name: sbx
Version: ${versionOf(deb)}
Release: 1
Summary: ${summary}
License: Apache-2.0 AND MIT AND ISC AND BSD-3-Clause
Group: Applications/System
Packager: ${control.Maintainer}
URL: https://sbx.invalid
AutoReqProv: no
Requires: ${RPM_QEMU[control.Architecture]}
Requires: virtiofsd
Requires: shadow-utils
Requires: util-linux
Requires: e2fsprogs
Requires: erofs-utils
Requires: ca-certificates
Requires: glibc >= 2.34
Requires: libgcc_s.so.1()(64bit)
Recommends: mmdebstrap
Recommends: patchelf
Recommends: skopeo
Recommends: lz4
Recommends: zstd
Recommends: xz
Recommends: npm
Recommends: openssh-clients
Suggests: tpm2-tools

%description
${description.map((line) => line.trim().replace(/^\.$/, "")).join("\n")}

%install
mkdir -p %{buildroot}
cp -a ${tree}/. %{buildroot}/

%post
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
  [ "$1" -ne 1 ] || systemctl enable --now sbx-assets.timer >/dev/null 2>&1 || true
fi
# A company's package of the same call fetches them when its settings are there.
if [ ! -e /usr/share/sbx/corp/corp.toml ] || [ -e /etc/sbx/corp.toml ]; then
  ${FETCH_ASSETS.replaceAll("\n", "\n  ").trimEnd()}
fi

%preun
${atRemoval(PRERM.replaceAll("deb-systemd-invoke", "systemctl"), "remove")}
%postun
${atRemoval(POSTRM, "purge")}
%files
${listed.join("\n")}

%changelog
* ${day(deb.sourceDateEpoch)} ${control.Maintainer} - ${versionOf(deb)}-1
- What changed is in /usr/share/doc/sbx/CHANGELOG.md.gz.
`;
}

/** A day as changelogs of rpm have it: `Mon Nov 30 2026`. */
function day(seconds: number): string {
  const [week, date, month, year] = new Date(seconds * 1000).toUTCString().split(" ");
  return `${week.slice(0, 3)} ${month} ${date} ${year}`;
}

/** A tarball, with the sum that other packages name it by. */
export interface Tarball {
  path: string;
  sha256: string;
}

/**
 * Writes a tarball with its installer, for distributions without a package. The
 * same input gives the same bytes.
 *
 * @throws {SbxError} `package.tool_failed`, `package.file_missing`
 */
export async function writeTarball(deb: Deb, out: string): Promise<Tarball> {
  await Deno.mkdir(out, { recursive: true });
  const work = await Deno.makeTempDir({ prefix: "sbx-tar-" });
  try {
    const name = `sbx-${versionOf(deb)}-linux-${ARCHES[deb.control.Architecture]}`;
    // Units and scripts of the whole machine name /usr: they are Debian's and the rpm's.
    const files = filesElsewhere(deb).filter(({ path }) =>
      !/\/systemd\/system\/|\/update-assets$/.test(path)
    );
    const inside = files.map(({ path, ...file }) => ({
      ...file,
      path: path.replace(/^usr\//, "").replace("lib/sbx/vhost-device-vsock", "bin/vhost-device-vsock"),
    }));
    await writeTree(join(work, name), [
      ...inside,
      { path: "install.sh", content: { text: INSTALLER }, mode: 0o755 },
    ], deb.sourceDateEpoch);
    const path = join(out, `${name}.tar.xz`);
    const time = `--mtime=@${deb.sourceDateEpoch}`;
    await runTool(
      [
        "tar",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        time,
        "-C",
        work,
        "-cf",
        `${work}/t`,
        name,
      ],
      { doing: `building ${path}` },
    );
    await Deno.writeFile(
      path,
      await runTool(["xz", "-2", "-T1", "-c", `${work}/t`], { doing: `building ${path}` }),
    );
    const sha256 = createHash("sha256").update(await Deno.readFile(path)).digest("hex");
    return { path, sha256 };
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** The installer keeps a list of its files, which removal reads: nothing else is touched. */
const INSTALLER = `#!/bin/sh
# install.sh [--prefix DIR] [--remove]: installs sbx into DIR (/usr/local), or removes it from there.
set -eu
# For everybody to run, and for root alone to write, whatever root's own files are.
umask 022
prefix=/usr/local
remove=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || { echo "install.sh: --prefix needs a folder" >&2; exit 2; }; prefix=$2; shift 2 ;;
    --remove) remove=1; shift ;;
    *) echo "usage: install.sh [--prefix DIR] [--remove]" >&2; exit 2 ;;
  esac
done
case $prefix in /*) ;; *) echo "install.sh: $prefix is not an absolute path" >&2; exit 2 ;; esac
list=$prefix/share/sbx/installed-files
if [ -n "$remove" ]; then
  [ -r "$list" ] || { echo "install.sh: $list is missing: nothing was installed here" >&2; exit 1; }
  while IFS= read -r file; do rm -f -- "$prefix/$file"; done <"$list"
  rm -f -- "$list"
  for dir in share/doc/sbx share/licenses/sbx share/licenses share/sbx lib/systemd/user lib/systemd; do
    rmdir -- "$prefix/$dir" 2>/dev/null || true
  done
  echo "sbx is removed from $prefix; homes (~/.sbx) stay: sbx purge --home removes one before"
  exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
machine=$(uname -m)
case $here in
  *-linux-"$machine") ;;
  *) echo "install.sh: this is sbx for another machine than $machine: \${here##*/}" >&2; exit 1 ;;
esac
mkdir -p "$prefix/share/sbx" || { echo "install.sh: run it as root, or with --prefix" >&2; exit 1; }
cd "$here"
# A list of a version before: files that this one lacks go.
[ ! -r "$list" ] || cp "$list" "$list.before"
find . \\( -type f -o -type l \\) ! -path ./install.sh | sed 's,^\\./,,' | sort >"$list.new"
while IFS= read -r file; do
  mkdir -p "$prefix/$(dirname "$file")"
  # By a rename: a program that runs goes on with its own file.
  cp -P -- "$file" "$prefix/$file.new.$$"
  case $file in
    lib/systemd/user/*) sed "s,/usr/bin/,$prefix/bin/,; s,/usr/share/,$prefix/share/," "$file" >"$prefix/$file.new.$$" ;;
  esac
  # It was unpacked with any umask.
  [ -L "$file" ] || chmod a+rX,go-w -- "$prefix/$file.new.$$"
  mv -f -- "$prefix/$file.new.$$" "$prefix/$file"
done <"$list.new"
if [ -r "$list.before" ]; then
  while IFS= read -r file; do
    grep -qxF -- "$file" "$list.new" || rm -f -- "$prefix/$file"
  done <"$list.before"
  rm -f "$list.before"
fi
mv -f "$list.new" "$list"
for tool in newuidmap mkfs.ext4 mkfs.erofs "qemu-system-$machine"; do
  command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
    echo "install.sh: $tool is missing; install your distribution's package of it" >&2
done
echo "sbx is installed in $prefix/bin; sbx doctor names what this machine lacks"
`;

/** What Arch and Nix make packages of. */
export interface Published {
  /** address of the folder of the tarballs */
  url: string;
  tarballs: { arch: "amd64" | "arm64"; tarball: Tarball }[];
}

/** PKGBUILD of Arch, of the tarballs. */
export function pkgbuild(deb: Deb, { url, tarballs }: Published): string {
  const version = versionOf(deb);
  const per = tarballs.map(({ arch, tarball }) =>
    `source_${ARCHES[arch]}=("${url}/${basename(tarball.path)}")\nsha256sums_${
      ARCHES[arch]
    }=('${tarball.sha256}')`
  );
  return `# Maintainer: ${deb.control.Maintainer}
pkgname=sbx-bin
_version=${version}
pkgver=\${_version//[~-]/_}
pkgrel=1
pkgdesc="${deb.control.Description.split("\n")[0]}"
arch=(${tarballs.map(({ arch }) => `'${ARCHES[arch]}'`).join(" ")})
url="${url}"
license=('Apache-2.0' 'MIT')
depends=('glibc' 'gcc-libs' 'qemu-base' 'virtiofsd' 'shadow' 'e2fsprogs' 'erofs-utils' 'ca-certificates')
optdepends=('skopeo: images of containers' 'npm: builds of guest images' 'openssh: editors and SSH clients'
            'tpm2-tools: keys of a fleet in the TPM')
provides=('sbx')
conflicts=('sbx')
# The program has its files behind its last section: stripping would cut them off.
options=('!strip' '!debug')
${per.join("\n")}

package() {
  cd "$srcdir/sbx-$_version-linux-$CARCH"
  ./install.sh --prefix "$pkgdir/usr"
  sed -i "s,$pkgdir,," "$pkgdir/usr/lib/systemd/user/sbx.service"
  rm "$pkgdir/usr/share/sbx/installed-files"
}
`;
}

/** Expression of Nix, of the tarballs. */
export function nixExpression(deb: Deb, { url, tarballs }: Published): string {
  const sources = tarballs.map(({ arch, tarball }) =>
    `    ${ARCHES[arch]}-linux = {
      url = "${url}/${basename(tarball.path)}";
      sha256 = "${tarball.sha256}";
    };`
  );
  return `# Beside it a machine needs qemu, virtiofsd, shadow's newuidmap, e2fsprogs and erofs-utils.
{ lib, stdenv, fetchurl }:

let
  sources = {
${sources.join("\n")}
  };
in
stdenv.mkDerivation {
  pname = "sbx";
  version = "${versionOf(deb)}";
  src = fetchurl (sources.\${stdenv.hostPlatform.system} or (throw "sbx has no build for \${stdenv.hostPlatform.system}"));
  # The program has its files behind its last section, so that neither strip nor patchelf may write it. It asks for the loader of
  # other distributions, which NixOS has with programs.nix-ld.enable = true.
  dontStrip = true;
  dontPatchELF = true;
  installPhase = ''
    runHook preInstall
    patchShebangs install.sh
    ./install.sh --prefix $out
    rm $out/share/sbx/installed-files
    runHook postInstall
  '';
  meta = {
    description = "${deb.control.Description.split("\n")[0]}";
    license = lib.licenses.asl20;
    platforms = builtins.attrNames sources;
    mainProgram = "sbx";
  };
}
`;
}
