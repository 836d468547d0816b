/**
 * Programs of the guest that pack and unpack an agent's conversations; the first argument is the
 * root of its files, "" in a VM.
 */

/** Exit code of {@linkcode PACK_HISTORY} where no conversation is. */
export const NO_HISTORY = 3;

/** Packs the paths that are there into a file: ROOT FILE PATH… */
export const PACK_HISTORY = `umask 077; root=$1; out=$2; shift 2; found=
for path in "$@"; do [ -e "$root$path" ] && found="$found \${path#/}"; done
[ -n "$found" ] || exit ${NO_HISTORY}
mkdir -p "\${out%/*}" && tar -C "$root/" -cf "$out" $found`;

/**
 * Unpacks in a folder of its own, where only plain files and folders stay, and copies the named paths from
 * it, and no other: ROOT FILE PATH… The bytes are another VM's, which may have made them for this one.
 */
export const UNPACK_HISTORY = `set -e; umask 077; root=$1; tar=$2; shift 2
mkdir -p "$root/var/tmp"; dir=$(mktemp -d "$root/var/tmp/sbx-history.XXXXXX")
trap 'rm -rf "$dir" "$tar"' EXIT
tar --no-same-owner --no-same-permissions -C "$dir" -xf "$tar"
find "$dir" ! -type f ! -type d -delete
find "$dir" -type d -exec chmod 0700 {} +
find "$dir" -type f -exec chmod 0600 {} +
for path in "$@"; do
  [ -e "$dir$path" ] || continue
  mkdir -p "$(dirname "$root$path")"
  rm -rf "$root$path"
  cp -R "$dir$path" "$root$path"
done`;
