import { join } from "node:path";
import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { RULES_PATH } from "../../machine/guest/wire/mod.ts";
import type { Suite } from "../../config/profile/mod.ts";
import { archNames } from "./arch.ts";
import { hasTool, run, throwIfInterrupted } from "./command.ts";
import { GUEST_PROGRAMS } from "./guest.ts";
import { KEEPER, KEEPER_PATH } from "./keeper.ts";
import type { ModuleTree } from "./module.ts";
import { MODULES_PATH, NETWORK_MODULES, RESOLV_CONF, RULES } from "./network.ts";

/** Path in the image of the program that `sbx ssh-config` names; without the leading slash. */
const SSHD_PATH = "usr/bin/sbx-sshd";

/**
 * Serves one SSH connection on its standard streams, for the public key that is its argument
 * (docs/guides/editors.md). No port is opened: who can run programs in the VM can run this one. Its sessions
 * have the variables that it has; one whose value has several lines is left out.
 *
 * The key of the VM is made for its first connection and is gone when it stops.
 */
const SSHD = `#!/bin/sh
set -eu
umask 077
[ -x /usr/sbin/sshd ] || {
  echo "sbx-sshd: the image of this VM has no SSH server: add openssh-server to [packages] of its profile and build it, sbx image build PROFILE" >&2
  exit 127
}
dir=/run/sbx/ssh
mkdir -p "$dir" /run/sshd
if [ ! -s "$dir/host_key" ]; then
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$dir/host_key.$$" </dev/null >/dev/null
  mv "$dir/host_key.$$" "$dir/host_key"
  rm "$dir/host_key.$$.pub"
fi
printf '%s\\n' "$1" >"$dir/keys.$$"
mv "$dir/keys.$$" "$dir/keys"
variables=$(env -0 | tr '\\n\\0' '\\001\\n' |
  sed -n '/\\x01/d; s/[\\\\"]/\\\\&/g; s/^\\([A-Za-z_][A-Za-z0-9_]*=.*\\)$/"\\1"/p' | tr '\\n' ' ')
cat >"$dir/config.$$" <<CONFIG
HostKey $dir/host_key
AuthorizedKeysFile $dir/keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
PidFile none
LogLevel ERROR
AllowAgentForwarding no
AllowTcpForwarding local
AllowStreamLocalForwarding local
X11Forwarding no
PermitTunnel no
Subsystem sftp internal-sftp
SetEnv $variables
CONFIG
mv "$dir/config.$$" "$dir/config"
umask 022
exec /usr/sbin/sshd -i -e -f "$dir/config"
`;

/**
 * Packages of every image: root certificates for clients, nftables for the network, and tools to format a
 * Mac's disks.
 */
const BASE_PACKAGES = ["ca-certificates", "nftables", "e2fsprogs"];

/** Fixed UUID, so that the same tree gives the same image. */
const IMAGE_UUID = "5b8a2f10-0000-4000-8000-7362780a0001";

/** Command line of a guest program: all permissions, no downloads, no configuration lookup, no look for a newer Deno. */
const DENO_RUN =
  "env DENO_NO_UPDATE_CHECK=1 /usr/bin/deno run -A --unstable-vsock --unstable-net --no-config --no-lock --no-remote --no-npm --quiet";

/** Excludes documentation except for the licences of packages. */
const DPKG_OPTIONS = [
  "path-exclude=/usr/share/man/*",
  "path-exclude=/usr/share/info/*",
  "path-exclude=/usr/share/locale/*",
  "path-exclude=/usr/share/doc/*",
  "path-include=/usr/share/doc/*/copyright",
];

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
 */
const FINISH = `#!/bin/sh
set -eu
root=$1
cp -r "$overlay/." "$root/"
for program in $programs; do
  test -s "$root/usr/lib/sbx/$program.js" && test -x "$root/usr/bin/$program" || {
    echo "error: the guest program $program is not in the rootfs" >&2; exit 1; }
done
[ ! -x "$root/usr/bin/python3" ] || chroot "$root" python3 -B - <<'PYTHON'
import pathlib
for path in pathlib.Path("/usr/lib").glob("python3*/**/*.pyc"):
    with open(path, "r+b") as file:
        head = file.read(8)
        if head[4:] == bytes(4):
            file.write(bytes(4))
PYTHON
cp "$root/var/lib/dpkg/status" "$work/status"
(cd "$root/usr/share/doc" && grep -H '^License:' -- */copyright) >"$work/licenses" || true
printf '0 ^usr/bin/deno$\\n' >"$work/hints"
# A bind mount shows the tree without /proc, /sys and /dev, which are mounted in it while hooks run.
mkdir "$work/tree"
mount --bind "$root" "$work/tree"
mkfs.erofs --quiet -T0 -U ${IMAGE_UUID} -zlz4 --compress-hints="$work/hints" \\
  --exclude-regex='^etc/ssh/ssh_host_' --exclude-regex='^(dev|run|tmp|var/cache|var/lib/apt/lists|var/log/apt)/.' --exclude-regex='^var/log/.*log$' \\
  "$work/rootfs.erofs" "$work/tree" >/dev/null
umount "$work/tree"
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
  modules: ModuleTree;
  /** path of the guest's Deno */
  deno: string;
  /** folder with a `<name>.js` for each guest program */
  guestDir: string;
  /** folder of files that are laid over Debian's, to which sbx's own are added */
  overlay: string;
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
  throwIfInterrupted(signal);
  const command = [
    "mmdebstrap",
    "--variant=minbase",
    "--format=null",
    `--architectures=${archNames(parts.arch).debian}`,
    ...DPKG_OPTIONS.map((option) => `--dpkgopt=${option}`),
    `--include=${[...new Set([...BASE_PACKAGES, ...parts.packages])].join(",")}`,
    `--customize-hook=${finish}`,
    parts.suite,
    "-",
    ...parts.sources,
  ];
  const env = { TMPDIR: work, work, overlay: parts.overlay, programs: GUEST_PROGRAMS.join(" ") };
  await run(await asRoot(command, env), {
    doing: "building the root file system",
    env,
    signal,
    hint: "check that Debian's archive is reachable and has every package of the profile",
  });
  const path = join(work, "rootfs.erofs");
  const size = await Deno.stat(path).then((info) => info.size, () => 0);
  if (size === 0) throw new SbxError("image.rootfs.failed", "the image of the root file system is empty");
  const read = (name: string) => Deno.readTextFile(join(work, name));
  return { path, status: await read("status"), licenses: await read("licenses") };
}

/**
 * Command line that installs packages as root: unchanged for root, else through sudo, else in a user
 * namespace.
 */
async function asRoot(command: string[], env: Record<string, string>): Promise<string[]> {
  if (Deno.uid() === 0 || !await hasTool("sudo")) return command;
  const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const prompt = "sbx-admin installs packages into the image as root; password of %p: ";
  return ["sudo", "-p", prompt, "env", ...variables, ...command];
}

/** Writes the files laid over Debian's. */
async function writeOverlay(parts: RootfsParts): Promise<void> {
  const { overlay } = parts;
  const text = async (path: string, content: string, mode = 0o644) => {
    await Deno.mkdir(join(overlay, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(overlay, path), content, { mode });
  };
  await text("etc/hostname", "sbx\n");
  await text("etc/hosts", "127.0.0.1 localhost sbx\n::1 localhost\n");
  await text("etc/resolv.conf", RESOLV_CONF);
  await text(RULES_PATH.slice(1), RULES);
  await text("etc/machine-id", "");
  await text(SSHD_PATH, SSHD, 0o755);
  await text(KEEPER_PATH.slice(1), KEEPER, 0o755);
  await Deno.mkdir(join(overlay, "workspace"));
  for (const name of GUEST_PROGRAMS) {
    await text(`usr/lib/sbx/${name}.js`, await Deno.readTextFile(join(parts.guestDir, `${name}.js`)));
    await text(`usr/bin/${name}`, `#!/bin/sh\nexec ${DENO_RUN} /usr/lib/sbx/${name}.js "$@"\n`, 0o755);
  }
  await Deno.rename(parts.deno, join(overlay, "usr/bin/deno"));
  await Deno.chmod(join(overlay, "usr/bin/deno"), 0o755);
  await writeModules(parts.modules, text, overlay);
}

async function writeModules(
  modules: ModuleTree,
  text: (path: string, content: string) => Promise<void>,
  overlay: string,
): Promise<void> {
  // usr/lib, since Debian's /lib is a symlink to it and copying a folder would replace that.
  const base = `usr/lib/modules/${modules.version}`;
  const order = await modules.loadOrder(NETWORK_MODULES);
  const paths = new Map(order.map(({ name, path }) => [name, path]));
  for (const { path, bytes } of order) {
    await Deno.mkdir(join(overlay, base, path, ".."), { recursive: true });
    await Deno.writeFile(join(overlay, base, path), bytes, { mode: 0o644 });
  }
  const lines = order.map(({ path, dependencies }) =>
    `${path}: ${dependencies.map((name) => paths.get(name)).filter(Boolean).join(" ")}`.trimEnd()
  );
  await text(`${base}/modules.dep`, lines.join("\n") + "\n");
  // Load order for init, which has no modprobe.
  await text(MODULES_PATH.slice(1), order.map(({ path }) => `${base}/${path}\n`).join(""));
}
