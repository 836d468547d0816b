#!/bin/bash
# steps.sh URL OLD NEW, inside a clean Debian: the life of the packages, from an apt repository at URL. /mnt has the repository's
# public key, the guest image, and two packages of a company. Prints "ok: …" for each step, and ends at the first that fails.
set -euo pipefail
url=$1 old=$2 new=$3
apt() { apt-get -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log >&2; return 1; }; }
ok() { echo "ok: $*"; }
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 /root/.sbx/logs/* /root/.sbx/sessions/*/logs/* /home/person/.sbx/logs/* /home/person/.sbx/sessions/*/logs/* >&2 2>/dev/null
  exit 1
}
is() { [ "$2" = "$3" ] || fail "$1: expected '$3', got '$2'"; ok "$1"; }
has() { grep -qF -- "$3" <<<"$2" || fail "$1: '$3' is not in: $2"; ok "$1"; }
# A text in JSON that has one field a line.
field() { sed -n "s/^ *\"$1\": \"\(.*\)\",\?\$/\1/p"; }
state() { dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null || true; }
# Everything but what apt and dpkg write about themselves, and caches of the linker.
files() {
  find / -xdev \( -path /tmp -o -path /proc -o -path /sys -o -path /dev -o -path /mnt -o -path /run -o -path /var/cache -o -path /var/log \
    -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -printf '%y %m %u %p\n' | sort
}
# Programs of sbx in this root.
running() {
  for process in /proc/[0-9]*; do
    [ "$process/root" -ef / ] || continue
    case $(readlink "$process/exe") in */sbx*|*/qemu*|*virtiofsd*|*/vhost-device-vsock*) echo "${process##*/}" ;; esac
  done
}
trap 'kill -9 $(running) 2>/dev/null || true' EXIT
run_as() { user=$1; shift; (cd "/home/$user" && runuser -u "$user" -- env HOME="/home/$user" "$@"); }

cat >/etc/apt/sources.list.d/sbx.sources <<EOF
Types: deb
URIs: $url/apt
Suites: stable
Components: main
Signed-By: /mnt/apt/sbx-archive-keyring.pgp
EOF
# Homes that others may enter, as bookworm makes them: what is private in one is so by itself.
useradd -K HOME_MODE=0755 --create-home person
useradd -K HOME_MODE=0755 --create-home other
apt update
# What sbx depends on stays when it goes, as it was there before: apt-get autoremove is another step.
apt install --no-install-recommends $(apt-cache depends --no-recommends --no-suggests sbx |
  sed -n 's/^ *|\?Depends: //p' | grep -v '[<>]' | while read -r name; do apt-cache show "$name" >/dev/null 2>&1 && echo "$name"; done)
apt install --no-install-recommends needrestart
files >/tmp/before

apt install --no-install-recommends "sbx=$old"
is "installed" "$(state sbx)" "ii "
is "version" "$(sbx version --json | field version)" "$old"
[ "$(sbx version --json | field build_hash)" != dev ] || fail "the build has no hash"
without=$(run_as person sbx run -- true 2>&1 || true)
has "without assets, sbx says what to do" "$without" "sbx update --assets --manifest"

apt install --no-install-recommends /mnt/corp.deb
is "the company's package" "$(state sbx-corp-config)" "ii "
is "corp.toml is root's" "$(stat -c '%U %a' /etc/sbx/corp.toml)" "root 644"
is "assets are for everybody" "$(stat -c '%a' /var/lib/sbx/assets)" "755"
is "the origin is the package" "$(field origin </var/lib/sbx/assets/manifest-origin.json)" package
is "a VM of root" "$(sbx run -- echo hello)" "hello"
is "a VM of a person" "$(run_as person sbx run -- echo hello)" "hello"
is "a VM of another person" "$(run_as other sbx run -- echo hello)" "hello"
is "who does not see the first one's home" "$(run_as other ls /home/person/.sbx 2>&1 || true)" \
  "ls: cannot open directory '/home/person/.sbx': Permission denied"
has "a lock" "$(run_as person sbx settings set app.auto_update true 2>&1 || true)" "app.auto_update: locked by corp"
has "with its reason" "$(run_as person sbx settings explain app.auto_update)" "packages are updated by IT"
run_as person sbx update check >/dev/null
has "a profile of the company's package" "$(run_as person sbx profile list)" "corp-tools"
caps=$(sed -n 's/^CapabilityBoundingSet=//p' /usr/lib/systemd/system/sbx-service@.service | tr A-Z a-z | sed 's/cap_/+/g; s/ /,/g')
run_as other sbx stop >/dev/null
is "a VM with what sbx-service@ bounds" \
  "$(cd /home/other && setpriv --bounding-set="-all,$caps" runuser -u other -- env HOME=/home/other sbx run -- echo bounded)" "bounded"
metrics=$(sbx-admin users metrics)
has "root has the metrics of a person's service" "$metrics" 'sbx_user_service_up{user="person"} 1'
has "and of the other one's" "$metrics" 'sbx_user_service_up{user="other"} 1'
has "and its own" "$metrics" 'sbx_build_info{user="root",'
has "corp.toml is active" "$(sbx corp info)" "/etc/sbx/corp.toml"
has "status shows the manifest, by its hash" "$(sbx status)" "blake3:$(cat /mnt/manifest.blake3)"
has "and where it came from" "$(sbx status)" "package 1.0 from file:///mnt/image/manifest.json"
sbx create stays >/dev/null
is "a VM that stays" "$(sbx exec stays -- sh -c 'echo kept >file; cat file')" "kept"

: >/mnt/want-new
for _ in $(seq 600); do [ ! -e /mnt/want-new ] && break; sleep 0.1; done
apt update
apt install --only-upgrade sbx
is "upgraded" "$(sbx version --json | field version)" "$new"
has "needrestart names the program" "$(needrestart -v -b -r l 2>&1)" "uses obsolete binary /usr/bin/sbx"
dry=$(sbx-admin users restart --dry-run)
has "a person's service runs the old program" "$dry" "person: "
has "and another's service" "$dry" "other: "
has "root restarts it" "$(sbx-admin users restart --user person 2>&1)" "person: restarted "
is "and it runs the new one" "$(sbx-admin users restart --user person 2>&1)" "no user runs a replaced program"
is "the VM runs on" "$(sbx exec stays -- cat file)" "kept"
is "a new VM" "$(sbx run -- echo again)" "again"

apt install --no-install-recommends /mnt/corp-unreachable.deb
is "a manifest that cannot be reached leaves the package whole" "$(state sbx-corp-config)" "ii "
has "and says so" "$(cat /tmp/apt.log)" "could not be fetched"
is "and the old assets work" "$(run_as person sbx run -- echo still)" "still"
apt install --allow-downgrades --no-install-recommends /mnt/corp.deb
has "rollback of the company's package" "$(cat /usr/share/sbx/manifest-origin.json)" "/mnt/image/manifest.json"

run_as person sbx purge --home --yes >/dev/null
[ ! -e /home/person/.sbx ] || fail "the home of a person stayed"
[ -e /home/other/.sbx ] || fail "the home of another went with it"
ok "a person's home is purged"
rm -rf /root/.sbx.person; run_as person sbx stop >/dev/null 2>&1 || true
apt remove sbx-corp-config
[ ! -e /etc/sbx ] || fail "/etc/sbx stayed: $(find /etc/sbx)"
ok "the company's files are gone"
apt remove sbx
is "removed" "$(state sbx)" "rc "
[ -z "$(running)" ] || fail "still running: $(ps -o args= -p "$(running | paste -sd ,)")"
ok "nothing runs"
apt purge sbx sbx-corp-config
is "purged" "$(state sbx)$(state sbx-corp-config)" ""
# Homes are their users' data.
rm -rf /root/.sbx /home/person/.sbx /home/other/.sbx
[ -z "$(find /tmp -maxdepth 1 -name 'sbx-*')" ] || fail "left in /tmp: $(find /tmp -maxdepth 1 -name 'sbx-*')"
ok "nothing in /tmp"
files >/tmp/after
diff /tmp/before /tmp/after || fail "the package left something"
ok "no trace"

# A program that no package owns: a copy in /usr/local, with a VM that runs through its update.
dpkg-deb -x "/mnt/debs/sbx_${old}_amd64.deb" /tmp/old
install /tmp/old/usr/bin/sbx /tmp/old/usr/lib/sbx/vhost-device-vsock /usr/local/bin
for role in /tmp/old/usr/bin/sbx-*; do ln -s sbx "/usr/local/bin/${role##*/}"; done
rm -rf /tmp/old
hash -r
export SBX_RELEASE_CHANNELS_URL=file:///mnt/release/channels.json SBX_RELEASE_TRUST_FILE=/mnt/release-trust.json
sbx update --assets --manifest file:///mnt/image/manifest.json >/dev/null
sbx create stays >/dev/null
sbx exec stays -- sh -c 'echo kept >file'
has "the program is updated" "$(sbx update program 2>&1)" "$old → $new at /usr/local/bin/sbx"
is "its version" "$(sbx version --json | field version)" "$new"
is "the VM runs on, with the service of before" "$(sbx exec stays -- cat file)" "kept"
sbx stop >/dev/null
is "and with the new service" "$(sbx exec stays -- cat file)" "kept"
is "a VM of the new program" "$(sbx run -- echo new)" "new"
has "rollback" "$(sbx update program --rollback 2>&1)" "$new → $old"
is "the version of before" "$(sbx version --json | field version)" "$old"
sbx stop >/dev/null
is "the VM runs on after it" "$(sbx exec stays -- cat file)" "kept"
is "the history" "$(sbx update status --json | grep -c '"what": "program"')" 2
apt install --no-install-recommends "sbx=$new"
has "a program of a package is its manager's" "$(/usr/bin/sbx update program 2>&1 || true)" "apt-get install --only-upgrade sbx"
