/** Shell scripts of the package: the ones dpkg runs, and the one that fetches assets. */

/** Units that start automatically. */
const TIMER = "sbx-assets.timer";

/**
 * Fetches the assets of the packaged manifest for all users. The manifest's address is in a file of one field
 * a line, and holds no quotes (lib/publish/package/corp.ts). A failed update leaves the old set, whole.
 */
export const UPDATE_ASSETS = `#!/bin/sh
# Installs the assets of the manifest that a package names into /var/lib/sbx, for all users of this machine.
set -eu
origin=/usr/share/sbx/manifest-origin.json
[ -r "$origin" ] || exit 0
url=$(sed -n 's/^ *"source": "\\([^"]*\\)",*$/\\1/p' "$origin")
[ -n "$url" ] || { echo "sbx: $origin names no source" >&2; exit 1; }
export SBX_HOME=/var/lib/sbx HOME=/var/lib/sbx
umask 022
mkdir -p "$SBX_HOME"
code=0
/usr/bin/sbx update --assets --manifest "$url" || code=$?
[ ! -d "$SBX_HOME/assets" ] || chmod -R a+rX,go-w "$SBX_HOME/assets"
exit "$code"
`;

/** A failed update must not leave the package half-configured: the timer tries again. */
export const FETCH_ASSETS = `/usr/lib/sbx/update-assets || {
  echo "sbx: the assets could not be fetched; sbx-assets.timer tries again, and so does: sudo /usr/lib/sbx/update-assets" >&2
}
`;

/**
 * True unless a company's package is unpacked and not configured, as in one call of apt with both: its
 * settings and authorities are not installed, and its own script fetches the assets when they are.
 */
const MAY_FETCH = `may_fetch() {
  owner=$(dpkg-query -S /usr/share/sbx/manifest-origin.json 2>/dev/null | sed -n '1s/[:,].*//p') || true
  [ -z "$owner" ] || [ "$(dpkg-query -W -f '\${db:Status-Status}' "$owner" 2>/dev/null)" = installed ]
}
`;

export const POSTINST = `#!/bin/sh
set -e
case "$1" in
  configure|abort-upgrade|abort-deconfigure|abort-remove)
    if command -v deb-systemd-helper >/dev/null; then
      deb-systemd-helper unmask ${TIMER} >/dev/null || true
      if deb-systemd-helper --quiet was-enabled ${TIMER}; then
        deb-systemd-helper enable ${TIMER} >/dev/null || true
      else
        deb-systemd-helper update-state ${TIMER} >/dev/null || true
      fi
    fi
    if [ -d /run/systemd/system ]; then
      systemctl --system daemon-reload >/dev/null || true
      deb-systemd-invoke start ${TIMER} >/dev/null || true
    fi
    ;;
esac
${MAY_FETCH}if [ "$1" = configure ] && may_fetch; then
  ${FETCH_ASSETS.replaceAll("\n", "\n  ").trimEnd()}
fi
`;

/**
 * Stops services, gateways and machines of all users when the program is removed, not when it is upgraded.
 */
export const PRERM = `#!/bin/sh
set -e
[ "$1" = remove ] || exit 0
if [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop ${TIMER} 'sbx-service@*.service' >/dev/null 2>&1 || true
fi
# Processes of this program on this root file system, by its file: others may have the same path.
running() {
  for process in /proc/[0-9]*; do
    [ "$process/root" -ef / ] || continue
    case $(readlink "$process/exe" 2>/dev/null) in
      /usr/bin/sbx|"/usr/bin/sbx (deleted)") echo "\${process#/proc/}" ;;
    esac
  done
}
# shellcheck disable=SC2046
[ -z "$(running)" ] || kill $(running) 2>/dev/null || true
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ -n "$(running)" ] || exit 0
  sleep 1
done
# shellcheck disable=SC2046
kill -KILL $(running) 2>/dev/null || true
`;

export const POSTRM = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = remove ] && command -v deb-systemd-helper >/dev/null; then
  deb-systemd-helper mask ${TIMER} >/dev/null || true
fi
if [ "$1" = purge ]; then
  if command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge ${TIMER} >/dev/null || true
    deb-systemd-helper unmask ${TIMER} >/dev/null || true
  fi
  # Homes of users are theirs: sbx purge --home removes one.
  rm -rf /var/lib/sbx
  # Native libraries that the program unpacked, in each user's own folder (docs/design/contracts/01-homes.md). A user may keep
  # root from removing one, with a mount: that must not keep the package.
  for dir in /tmp/sbx-*; do
    case \${dir#/tmp/sbx-} in *[!0-9]*|'') continue ;; esac
    if [ -d "$dir" ] && [ ! -L "$dir" ] && [ "$(stat -c %u "$dir")" = "\${dir#/tmp/sbx-}" ]; then
      rm -rf --one-file-system -- "$dir" || true
    fi
  done
fi
`;
