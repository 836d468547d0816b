/**
 * A root file system with the programs of this machine and sbx's sources, and nothing
 * else: no home, no network, no root.
 */
import { fromRoot } from "./repo.ts";
import { runChild } from "./child.ts";
import type { Ran } from "./sbx.ts";

/** Arguments: the repository, a folder that becomes `/given`, and the command. Root only. */
const SCRIPT = `
set -e
repo=$1 given=$2; shift 2
root=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
deno=$(readlink -f "$repo/.deno")
mkdir -p "$root"/{usr,proc,dev,given,tmp} "$root$repo" "$root$deno"
mount --bind -o ro /usr "$root/usr"
for link in bin sbin lib lib64; do [ ! -L "/$link" ] || cp -P "/$link" "$root"; done
mount --bind -o ro "$repo" "$root$repo"
mount --bind -o ro "$deno" "$root$deno"
mount -t proc proc "$root/proc"
for device in null urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
cp -r "$given/." "$root/given"
chmod -R a+rX "$root/given"
chmod 1777 "$root/tmp"
exec chroot "$root" env -i PATH=/usr/bin:/bin:"$repo/bin" HOME=/nowhere \\
  setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'cd /given; "$@"' clean "$@"
`;

/**
 * Runs a command as nobody in such a root.
 * @param given folder with files that it may read, its current one
 */
export async function runInCleanRoot(given: string, command: readonly string[]): Promise<Ran> {
  const namespaces = ["--mount", "--net", "--pid", "--fork", "bash", "-c", SCRIPT, "clean"];
  const root = fromRoot("").replace(/\/$/, "");
  const { code, stdout, stderr } = await runChild("unshare", {
    args: [...namespaces, root, given, ...command],
  });
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out, stderr: err };
}
