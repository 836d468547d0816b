/** Changes below a folder of a guest, by its kernel's inotify. */
import { Code, ConnectError } from "@connectrpc/connect";
import { startPiped } from "../vm/program_pipe.ts";
import { EventType } from "./generated/filesystem_pb.ts";
import type { Guest } from "./guest.ts";

export interface Change {
  /** path below the watched folder */
  name: string;
  type: EventType;
}

/** Exit codes of the watching program. */
const MISSING = 44, NOT_A_FOLDER = 45, NO_WATCH = 46;

/** Characters of one line of the program: a path of 4096 bytes in hexadecimal. */
const LINE_MAX = 16 * 1024;
/** Changes that wait for a client; one that is slower loses its watch. */
const WAITING_MAX = 100_000;
/** Characters of the changes that wait: the guest chooses their names. */
const WAITING_TEXT_MAX = 4 * 1024 * 1024;

/**
 * The watching program, in the Perl that every Debian has; it prints "ready", then "KIND NAME" with the name
 * in hexadecimal. Folders made later are watched as soon as they are reported. Perl has no names for inotify:
 * the system calls are inotify_init1 and inotify_add_watch of x86_64 and arm64; 0x3c6 is modify, attrib,
 * moved, create and delete; 0x01000000 is only folders; 0x40000000 is an entry that is a folder.
 */
const PROGRAM = String.raw`
use strict; use POSIX ();
my ($root, $deep) = @ARGV;
exit ${MISSING} unless -e $root; exit ${NOT_A_FOLDER} unless -d $root;
my ($init, $add) = (POSIX::uname())[4] eq 'x86_64' ? (294, 254) : (26, 27);
my $fd = syscall($init, 02000000);
exit ${NO_WATCH} if $fd < 0;
open(my $in, '<&=', $fd) or exit ${NO_WATCH};
$| = 1;
my %name;
sub add {
  my ($path, $name) = @_;
  my $text = "$path";
  my $wd = syscall($add, $fd, $text, 0x3c6 | 0x01000000);
  if ($wd < 0) { return if length $name; exit ${NO_WATCH}; }
  $name{$wd} = $name;
  return unless $deep;
  opendir(my $dir, $path) or return;
  for my $entry (readdir $dir) {
    next if $entry eq '.' || $entry eq '..';
    my $below = "$path/$entry";
    add($below, length $name ? "$name/$entry" : $entry) if -d $below && ! -l $below;
  }
}
add($root, '');
print "ready\n";
while (my $size = sysread($in, my $buffer, 65536)) {
  for (my $at = 0; $at < $size;) {
    my ($wd, $mask, $cookie, $length) = unpack('iIII', substr($buffer, $at, 16));
    my $entry = unpack('Z*', substr($buffer, $at + 16, $length));
    $at += 16 + $length;
    next unless length $entry && exists $name{$wd};
    my $name = length $name{$wd} ? "$name{$wd}/$entry" : $entry;
    my $kind = $mask & 0x180 ? 'create' : $mask & 2 ? 'write' : $mask & 0x200 ? 'remove' : $mask & 0x40 ? 'rename' : $mask & 4 ? 'chmod' : next;
    print "$kind ", unpack('H*', $name), "\n";
    add("$root/$name", $name) if $deep && $kind eq 'create' && $mask & 0x40000000;
  }
}
`;

const KINDS: Record<string, EventType> = {
  create: EventType.CREATE,
  write: EventType.WRITE,
  remove: EventType.REMOVE,
  rename: EventType.RENAME,
  chmod: EventType.CHMOD,
};

/** The change in one line of the program; undefined for other lines. */
export function parseChange(line: string): Change | undefined {
  const [, kind, hex] = /^([a-z]+) ((?:[0-9a-f]{2})+)$/.exec(line) ?? [];
  const type = KINDS[kind];
  return type === undefined ? undefined : { type, name: new TextDecoder().decode(Uint8Array.fromHex(hex)) };
}

/**
 * Watches a folder until the signal aborts.
 *
 * @returns once it is watched
 * @throws {ConnectError} `not_found`, `invalid_argument`: it is no folder;
 * `failed_precondition`: the guest cannot watch
 */
export async function watchFolder(
  { client, sandbox }: Guest,
  path: string,
  { recursive, user, signal }: { recursive: boolean; user?: string; signal: AbortSignal },
): Promise<AsyncIterable<Change>> {
  const lines: string[] = [];
  let end: { failure?: unknown } | undefined;
  let arrival = Promise.withResolvers<void>();
  let partial = "";
  let size = 0;
  let errors = "";
  const decoder = new TextDecoder();
  const argv = ["perl", "-e", PROGRAM, path, recursive ? "1" : ""];
  const pipe = await startPiped(client, sandbox.vm, { command: argv, cwd: "/", user }, {
    stdout: (bytes) => {
      const parts = (partial + decoder.decode(bytes, { stream: true })).split("\n");
      partial = parts.pop()!.slice(0, LINE_MAX);
      // Output after the end is dropped.
      if (end) return Promise.resolve();
      for (const part of parts) {
        lines.push(part);
        size += part.length;
      }
      if (lines.length > WAITING_MAX || size > WAITING_TEXT_MAX) {
        end = { failure: new ConnectError("too many changes waited", Code.ResourceExhausted) };
        pipe.close();
      }
      arrival.resolve();
      return Promise.resolve();
    },
    stderr: (bytes) => {
      errors = (errors + new TextDecoder().decode(bytes)).slice(0, LINE_MAX);
      return Promise.resolve();
    },
  });
  signal.addEventListener("abort", () => pipe.close(), { once: true });
  if (signal.aborted) pipe.close();
  pipe.exit.then(
    ({ exit_code }) => end ??= { failure: failureOf(exit_code, path, errors.trim()) },
    (failure) => end ??= { failure },
  ).finally(() => arrival.resolve());

  /** @returns undefined once the signal has aborted @throws the failure that ended the program */
  async function nextLine(): Promise<string | undefined> {
    for (;;) {
      const next = lines.shift();
      if (next !== undefined) {
        size -= next.length;
        return next;
      }
      if (end) {
        if (signal.aborted) return undefined;
        throw end.failure;
      }
      arrival = Promise.withResolvers();
      await arrival.promise;
    }
  }

  // "ready": an error before it rejects the call, and not the first read.
  await nextLine();
  return (async function* () {
    for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
      const change = parseChange(line);
      if (change) yield change;
    }
  })();
}

function failureOf(exitCode: number, path: string, errors: string): ConnectError {
  if (exitCode === MISSING) return new ConnectError(`path not found: ${path}`, Code.NotFound);
  if (exitCode === NOT_A_FOLDER) {
    return new ConnectError(`path is not a directory: ${path}`, Code.InvalidArgument);
  }
  const why = errors || `exit code ${exitCode}`;
  return new ConnectError(`${path} cannot be watched: ${why}`, Code.FailedPrecondition);
}
