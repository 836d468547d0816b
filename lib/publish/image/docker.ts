/** Engines of containers in a guest: Docker's on demand, and containers of each that trust the host's CA. */
import { CONTAINER_FILES, LAYER_PATH, RUNTIMES_PATH } from "../../machine/guest/wire/mod.ts";

const BIN = `${LAYER_PATH}/bin`;
/** OCI runtimes that engines look for. */
export const RUNTIMES = ["runc", "crun"];

/** Failures in a row of an engine that ends within a minute, after which clients are sent away. */
const ENGINE_TRIES = 3;

/** Where the starter is in a guest. */
export const DOCKER_PATH = `${LAYER_PATH}/sbx-docker`;

/**
 * Program of the guest that listens at Docker's socket and starts the engine with the first connection,
 * which it hands over as systemd does (sd_listen_fds(3)): an engine that is not used takes 150 MB and
 * seconds of every start. An engine that fails is started again while clients wait: it gives its own parts a
 * time to start, which a busy machine may exceed. After {@linkcode ENGINE_TRIES} failures in a row it ends
 * what waits for it, and its log says why.
 */
export const DOCKER = `#!${BIN}/perl
use strict;

my ($SOCKET, $LOG) = ("/run/docker.sock", "/var/log/docker.log");
# The first file after the standard ones is the engine's.
$^F = 3;
unlink $SOCKET;
socket(my $listener, 1, 1, 0) or die "sbx-docker: no socket: $!\\n";
fileno($listener) == 3 or die "sbx-docker: the socket is not the first file\\n";
umask 0117;
bind($listener, pack("S Z108", 1, $SOCKET)) or die "sbx-docker: $SOCKET: $!\\n";
umask 022;
listen($listener, 64) or die "sbx-docker: $SOCKET: $!\\n";
my $group = getgrnam("docker");
chown(0, $group, $SOCKET) if defined $group;

my $failures = 0;
for (;;) {
  my $ready = "";
  vec($ready, 3, 1) = 1;
  next unless select($ready, undef, undef, undef) > 0;
  my $engine = fork() // die "sbx-docker: cannot start the engine: $!\\n";
  if ($engine == 0) {
    open(STDIN, "<", "/dev/null");
    open(STDOUT, ">>", $LOG) and open(STDERR, ">&", \\*STDOUT);
    delete $ENV{DENO_DIR};
    $ENV{HOME} = "/root";
    $ENV{PATH} = "${RUNTIMES_PATH}:$ENV{PATH}";
    ($ENV{LISTEN_PID}, $ENV{LISTEN_FDS}) = ($$, 1);
    exec("dockerd", "-H", "fd://") or die "dockerd: $!\\n";
  }
  my $began = time;
  waitpid($engine, 0);
  if ($? == 0 || time - $began > 60) { $failures = 0; next }
  warn "sbx-docker: dockerd ended with status $?, $LOG says why\\n";
  next if ++$failures < ${ENGINE_TRIES};
  $failures = 0;
  for (;;) {
    $ready = "";
    vec($ready, 3, 1) = 1;
    last unless select($ready, undef, undef, 0) > 0 && accept(my $conn, $listener);
    close $conn;
  }
}
`;

/**
 * apt's configuration in containers (CONTAINER_FILES): an image may have no
 * bundle, where apt would look for one.
 */
export const CONTAINER_APT = `Acquire::https::CAInfo "${CONTAINER_FILES.bundle}";\n`;

/**
 * A runtime in front of the one with the same name: containers, steps of builds and programs that join a
 * container get the CA first. Docker finds it by PATH, podman and buildah by a configuration that init writes
 * (`runtimes`). Whatever fails there, the container starts without.
 */
export const RUNTIME = `#!${BIN}/sh
name=\${0##*/}
verb= bundle=. process= last=
for word; do
  case $last in
    -b | --bundle) bundle=$word ;;
    -p | --process) process=$word ;;
  esac
  case $word in
    --bundle=*) bundle=\${word#*=} ;;
    --process=*) process=\${word#*=} ;;
    create | run | exec) verb=\${verb:-$word} ;;
  esac
  last=$word
done
case $verb in
  create | run) verb=create path=$bundle ;;
  *) path=$process ;;
esac
[ -z "$path" ] || ${BIN}/deno run -A --no-config --no-lock --no-remote --no-npm --quiet ${LAYER_PATH}/sbx-container.js $verb "$path" || :
IFS=:
for folder in $PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin; do
  [ "$folder" = ${RUNTIMES_PATH} ] || [ ! -x "$folder/$name" ] || exec "$folder/$name" "$@"
done
echo "$name is not installed" >&2
exit 127
`;
