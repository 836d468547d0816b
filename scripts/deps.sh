#!/bin/sh
# Installs the Debian packages that sbx needs and this machine has not, saying which and why. Silent when all is there.
# RUNS_ONLY=1: what runs VMs, and not what makes images and brings Deno. TESTS=1, PACKAGES=1, HTTP_SERVERS=1: also what tests
# need.
set -eu

die() {
  echo "deps: $1" >&2
  [ -z "${2:-}" ] || echo "  $2" >&2
  exit 1
}

[ -r /etc/os-release ] || die "this is not Debian: /etc/os-release is missing"
. /etc/os-release
case " ${ID:-} ${ID_LIKE:-} " in *" debian "*) ;; *) die "${PRETTY_NAME:-this system} is not Debian" "sbx is set up on Debian 12 (bookworm) or newer" ;; esac
[ "${ID:-}" != debian ] || [ "${VERSION_ID:-13}" -ge 12 ] || die "${PRETTY_NAME} is too old" "sbx needs Debian 12 (bookworm) or newer"

# package|why
wanted() {
  case $(uname -m) in
    x86_64) echo "qemu-system-x86|runs the VMs" ;;
    aarch64) echo "qemu-system-arm|runs the VMs" ;;
    *) die "VMs of $(uname -m) are not supported" "sbx runs on x86_64 and arm64" ;;
  esac
  # bookworm's QEMU brings its own virtiofsd.
  [ "${VERSION_CODENAME:-}" = bookworm ] || echo "virtiofsd|shares a VM's workspace with the host"
  echo "uidmap|lets users who are not root share a VM's workspace"
  command -v mount >/dev/null || echo "mount|gives virtiofsd the workspace alone; mounts the guest's root file system while it is made"
  echo "e2fsprogs|formats the disk that a VM writes to"
  command -v ssh >/dev/null || echo "openssh-client|connects editors and SSH clients to VMs"
  [ -n "${RUNS_ONLY:-}" ] || build_tools
  # What tests alone need, as make test and make e2e say.
  [ -z "${TESTS:-}" ] || echo "chromium|shows the desktop page to its tests"
  [ -z "${TESTS:-}" ] || echo "dbus|is the bus of the tray's tests"
  [ -z "${TESTS:-}" ] || echo "docker-registry|is the registry of the tests of images"
  [ -z "${TESTS:-}" ] || echo "busybox-static|is the root file system of an image in tests"
  [ -z "${TESTS:-}" ] || echo "musl|is the C library of an image in tests"
  [ -z "${TESTS:-}" ] || echo "postgresql|is a database of the tests of credentials"
  [ -z "${TESTS:-}" ] || echo "redis-server|is a database of the tests of credentials"
  [ -z "${TESTS:-}" ] || echo "mariadb-server|is a database of the tests of credentials"
  [ -z "${TESTS:-}" ] || echo "python3-grpcio|is both ends of the tests of gRPC"
  [ -z "${TESTS:-}" ] || echo "nghttp2-client|is a client of the tests of HTTP/2"
  [ -z "${TESTS:-}" ] || echo "openssh-server|is the SSH server of the tests of credentials"
  [ -z "${TESTS:-}" ] || echo "libfaketime|makes the clock of a host jump in tests, as its sleep does"
  [ -z "${TESTS:-}" ] || echo "awscli|is a client of the tests of credentials"
  [ -z "${TESTS:-}" ] || for package in zsh fish; do echo "$package|is a shell of the tests of completion"; done
  [ -z "${TESTS:-}" ] || echo "swtpm|is the TPM of the tests of enrolment"
  [ -z "${TESTS:-}" ] || echo "tpm2-tools|talks to that TPM"
  [ -z "${TESTS:-}" ] || echo "mandoc|checks the manual pages in tests"
  [ -z "${TESTS:-}" ] || for package in apt-utils gnupg python3-pip; do
    echo "$package|makes and installs packages of a company in tests"
  done
  [ -z "${TESTS:-}" ] || echo "umoci|unpacks images beside sbx, in a benchmark"
  # What make test-packages makes and checks packages with.
  [ -z "${PACKAGES:-}" ] || for package in apt-utils gnupg lintian sqv; do
    echo "$package|makes and checks an apt repository of packages"
  done
  # What make test-http compares sbx with.
  [ -z "${HTTP_SERVERS:-}" ] || for package in apache2 busybox caddy default-jre-headless golang-go gunicorn lighttpd nginx-light \
    python3-aiohttp python3-waitress python3-werkzeug ruby ruby-webrick tomcat10 uvicorn; do
    echo "$package|is or runs an HTTP server that is compared with"
  done
  # The cluster of make test-slurm.
  [ -z "${SLURM:-}" ] || for package in munge slurm-client slurmctld slurmd; do
    echo "$package|is a part of the cluster that VMs run under"
  done
}

# What makes a guest's image.
build_tools() {
  echo "mmdebstrap|makes the guest's root file system out of Debian packages"
  echo "erofs-utils|packs the root file system"
  echo "patchelf|links the programs of sbx in guests to their own libraries"
  echo "skopeo|pulls OCI images"
  echo "lz4|unpacks the kernel of bookworm"
  echo "zstd|unpacks the kernel of trixie"
  echo "xz-utils|unpacks the kernel's modules"
  command -v npm >/dev/null || echo "npm|brings Deno and the guest's packages"
}

# deps.sh --arch ARCH: also what builds and runs guests of another architecture.
foreign() {
  case $1 in
    arm64) [ "$(uname -m)" = aarch64 ] || echo "qemu-system-arm|emulates arm64 machines" ;;
    x86_64) [ "$(uname -m)" = x86_64 ] || echo "qemu-system-x86|emulates x86_64 machines" ;;
    *) die "there is no architecture $1" "--arch is arm64 or x86_64" ;;
  esac
  echo "qemu-user-static|runs programs of another architecture, while an image is built"
  echo "binfmt-support|tells the kernel of them"
  echo "arch-test|tells mmdebstrap that they run"
}

[ -z "${TESTS:-}" ] || "$(dirname "$0")/receivers.sh"
list=$(wanted; [ "${1:-}" != --arch ] || foreign "${2:-}")
installed=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' 2>/dev/null | sed -n 's/ ii.*//p')
missing=$(echo "$list" | while IFS='|' read -r package why; do
  echo "$installed" | grep -qx "$package" || echo "$package|$why"
done)
vsock=
command -v vhost-device-vsock >/dev/null || vsock=yes
[ -n "$missing$vsock" ] || exit 0

echo "deps: installing through apt what this machine has not:"
[ -z "$missing" ] || echo "$missing" | while IFS='|' read -r package why; do echo "  $package: $why"; done
[ -z "$vsock" ] || echo "  vhost-device-vsock: connects host and guest without a network card"

root=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "installing packages is root's work, and this machine has no sudo" "run scripts/deps.sh as root"
  root="sudo -p deps:_password_of_%p_for_apt:_"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$work"

# apt WHAT ARGUMENTS: as root, without questions; its output is shown only when it fails.
apt() {
  doing=$1
  shift
  $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 \
    -o Acquire::Retries=3 "$@" >"$work/log" 2>&1 && return
  sed 's/^/  /' "$work/log" | tail -n 20 >&2
  die "$doing failed" "is Debian's archive reachable? sudo apt-get update should work"
}

has_lists() { [ -n "$(find /var/lib/apt/lists -name '*_Packages*' -mtime -1 2>/dev/null | head -n 1)" ]; }
has_lists || apt "reading Debian's package lists" update

if [ -n "$missing" ]; then
  # Names of packages hold no spaces.
  # shellcheck disable=SC2046
  apt "installing packages" install --no-install-recommends $(echo "$missing" | cut -d '|' -f 1)
fi
[ -n "$vsock" ] || exit 0

if apt-cache policy vhost-device-vsock | grep -q 'Candidate: [^(]'; then
  apt "installing vhost-device-vsock" install --no-install-recommends vhost-device-vsock
  exit 0
fi

# Debian has it in sid only: vsock.sh fetches that one package. What it depends on comes from the machine's own suites.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || apt "installing Debian's keyring" install --no-install-recommends debian-archive-keyring
scripts=$(cd "$(dirname "$0")" && pwd)
"$scripts/vsock.sh" "$work" || die "fetching vhost-device-vsock from Debian sid failed" "is Debian's archive reachable? sudo apt-get update should work"
set -- "$work"/vhost-device-vsock_*.deb
apt "installing vhost-device-vsock" install --no-install-recommends "$1"
command -v vhost-device-vsock >/dev/null || die "vhost-device-vsock was installed, but is not on the path"
