/** Root file system of a guest image. */
import { join } from "node:path";
import type { Arch } from "../../base/arch/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { COMMANDS, COMMANDS_PATH, LAYER_PATH } from "../../machine/guest/wire/mod.ts";
import type { Suite } from "../../config/profile/mod.ts";
import { archNames } from "./arch.ts";
import { run, throwIfInterrupted } from "./command.ts";
import { HOSTS, RESOLV_CONF } from "./network.ts";
import { CONFINED, requireStep, STEPS } from "./own/confined.ts";
import { conflict } from "./own/file.ts";
import { LASTING_SOURCES } from "./own/source.ts";
import { asRoot } from "./root.ts";

/** Packages of every image: root certificates for clients. */
const BASE_PACKAGES = ["ca-certificates"];

/**
 * No UUID. Overlays note where a copied file was, by the UUID of its file system and its number there: one
 * that images share would lead to other files in the next image (lib/publish/image/init.ts).
 */
const IMAGE_UUID = "00000000-0000-0000-0000-000000000000";

/** Excludes documentation except for the licences of packages. */
const DPKG_OPTIONS = [
  "path-exclude=/usr/share/man/*",
  "path-exclude=/usr/share/info/*",
  "path-exclude=/usr/share/locale/*",
  "path-exclude=/usr/share/doc/*",
  "path-include=/usr/share/doc/*/copyright",
];

/**
 * Hook before the packages are installed: without these folders the alternatives
 * of some, such as a JDK's, fail.
 */
const MAN_FOLDERS = `for at in 1 2 3 4 5 6 7 8; do mkdir -p "$1/usr/share/man/man$at"; done`;

/**
 * Shell commands on a tree, `$root`, with all the rights of the hook: by Debian's programs alone. Packages of
 * pip, cargo, go and npm have theirs in /usr/local/bin, and pip's may have .pth files, which Python's site
 * runs.
 */
export const FINISH_TREE = `[ ! -d "$root/usr/local/share/ca-certificates" ] ||
  chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/update-ca-certificates >/dev/null
[ ! -x "$root/usr/bin/python3" ] || chroot "$root" /usr/bin/python3 -I -S -B - <<'PYTHON'
import pathlib
for path in pathlib.Path("/usr/lib").glob("python3*/**/*.pyc"):
    with open(path, "r+b") as file:
        head = file.read(8)
        if head[4:] == bytes(4):
            file.write(bytes(4))
PYTHON`;

/**
 * Shell commands that end the hook where a file of `$overlay` would be in place of a folder of the tree, or a
 * folder in place of a file or link; `$work/conflict` names it.
 */
export const NO_CONFLICT =
  `(cd "$overlay" && find . -mindepth 1 -printf '%y %P\\n') | while read -r kind path; do
  if [ "$kind" = d ]; then
    { [ -e "$root/$path" ] || [ -L "$root/$path" ]; } || continue
    if [ -d "$root/$path" ] && [ ! -L "$root/$path" ]; then continue; fi
  else
    if [ ! -d "$root/$path" ] || [ -L "$root/$path" ]; then continue; fi
  fi
  echo "/$path" >"$work/conflict"
  exit 1
done`;

/**
 * Hook that mmdebstrap runs on the finished tree as its root: `$1` is the tree, `$work` our folder,
 * `$overlay` the files laid over it. The image is made here, so that the tree, whose owners are not the
 * caller's, never leaves mmdebstrap's own folder.
 *
 * All files get the time 0. Python compiles a module again whose file has another time than its compiled form
 * says: in every VM, and into /usr/lib.
 *
 * The keys that openssh-server makes while it is installed would be the same in all VMs.
 *
 * Files are excluded from the image but not removed from the tree: mmdebstrap's apt configuration is in its
 * /tmp, and without it apt would go on to work on the host.
 *
 * A company's script gets a copy of the tree: mmdebstrap goes on with its own, as root. Nothing of the copy
 * is run, and no link in it followed: mkfs.erofs follows none.
 */
const FINISH = `#!/bin/sh
set -eu
root=$1
${STEPS}
${NO_CONFLICT}
cp -r --remove-destination "$overlay/." "$root/"
${LASTING_SOURCES}
${FINISH_TREE}
cp "$root/var/lib/dpkg/status" "$work/status"
(cd "$root/usr/share/doc" && grep -H '^License:' -- */copyright) >"$work/licenses" || true
if [ -f "$work/script" ]; then
  cp -a -x "$root" "$work/tree"
  confined script "$work/tree" "$work/script"
else
  # A bind mount shows the tree without /proc, /sys and /dev, which are mounted in it while hooks run.
  mkdir "$work/tree"
  mount --bind "$root" "$work/tree"
fi
mkfs.erofs --quiet -T0 -U ${IMAGE_UUID} -zlz4 \\
  --exclude-regex='^etc/ssh/ssh_host_' --exclude-regex='^(dev|run|tmp|var/cache|var/lib/apt/lists|var/log/apt)/.' --exclude-regex='^var/log/.*log$' \\
  "$work/rootfs.erofs" "$work/tree" >/dev/null
if [ -f "$work/script" ]; then rm -rf --one-file-system "$work/tree"; else umount "$work/tree"; fi
if [ -n "\${SUDO_UID:-}" ]; then chown "$SUDO_UID:$SUDO_GID" "$work/rootfs.erofs" "$work/status" "$work/licenses"; fi
`;

/** Input of one root file system. */
export interface RootfsParts {
  arch: Arch;
  suite: Suite;
  /** Debian packages of the profile */
  packages: string[];
  /** sources of the guest's suite */
  sources: string[];
  /** folder of files that are laid over Debian's, to which sbx's own are added */
  overlay: string;
  /** a company's script that changes the finished tree, and what messages call it */
  script?: { path: string; name: string };
}

/** A built root file system. */
export interface Rootfs {
  /** path of the erofs image */
  path: string;
  /** its `/var/lib/dpkg/status` */
  status: string;
  /** lines `<package>/copyright:License: <name>` */
  licenses: string;
}

/** Installs the packages, adds the overlay, and builds the erofs image in `work`. */
export async function buildRootfs(parts: RootfsParts, work: string, signal?: AbortSignal): Promise<Rootfs> {
  await writeOverlay(parts);
  const finish = join(work, "finish.sh");
  await Deno.writeTextFile(finish, FINISH, { mode: 0o755 });
  await Deno.writeTextFile(join(work, "confined.sh"), CONFINED, { mode: 0o755 });
  const { script } = parts;
  if (script) await Deno.copyFile(script.path, join(work, "script"));
  throwIfInterrupted(signal);
  const command = [
    "mmdebstrap",
    "--variant=minbase",
    "--format=null",
    `--architectures=${archNames(parts.arch).debian}`,
    ...DPKG_OPTIONS.map((option) => `--dpkgopt=${option}`),
    `--include=${[...new Set([...BASE_PACKAGES, ...parts.packages])].join(",")}`,
    `--essential-hook=${MAN_FOLDERS}`,
    `--customize-hook=${finish}`,
    parts.suite,
    "-",
    ...parts.sources,
  ];
  const env = { TMPDIR: work, work, overlay: parts.overlay };
  try {
    await run(await asRoot(command, env), {
      doing: "building the root file system",
      env,
      signal,
      hint:
        "check that Debian's archive, and each packages.apt_source, is reachable, has its key, and that " +
        "they have every package of the profile",
    });
  } catch (error) {
    throwIfInterrupted(signal);
    const taken = (await ifFound(Deno.readTextFile(join(work, "conflict"))))?.trim();
    if (taken) throw conflict(taken, error);
    const hint = "it runs as root of the image alone, without a network: docs/guides/images.md";
    if (script) await requireStep(work, "script", `the script ${script.name}`, hint);
    throw error;
  }
  const path = join(work, "rootfs.erofs");
  const size = await Deno.stat(path).then((info) => info.size, () => 0);
  if (size === 0) throw new SbxError("image.rootfs.failed", "the image of the root file system is empty");
  const read = (name: string) => Deno.readTextFile(join(work, name));
  return { path, status: await read("status"), licenses: await read("licenses") };
}

/** Writes the files laid over Debian's. */
async function writeOverlay({ overlay }: RootfsParts): Promise<void> {
  const text = async (path: string, content: string, mode = 0o644) => {
    await Deno.mkdir(join(overlay, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(overlay, path), content, { mode });
  };
  await text("etc/hostname", "sbx\n");
  await text("etc/hosts", HOSTS);
  await text("etc/resolv.conf", RESOLV_CONF);
  await text("etc/machine-id", "");
  await Deno.mkdir(join(overlay, "workspace"));
  // For shells that set a path of their own; a VM of another image has the commands in its PATH alone.
  await Deno.mkdir(join(overlay, "usr/bin"), { recursive: true });
  for (const name of COMMANDS) {
    await Deno.symlink(`${COMMANDS_PATH}/${name}`, join(overlay, "usr/bin", name));
  }
  await Deno.symlink(`${LAYER_PATH}/bin/deno`, join(overlay, "usr/bin/deno"));
}
