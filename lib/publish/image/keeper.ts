import { LAYER_PATH } from "../../machine/guest/wire/mod.ts";

/** Most files that the guest holds at once, which is most that its kernel lets a process have open. */
export const HELD_FILES_MAX = 4096;
/** Where the keeper is in a guest. */
export const KEEPER_PATH = `${LAYER_PATH}/sbx-keeper`;

/**
 * Program of the guest that runs sbx-activity and outlives it. The kernel's questions come by a group of
 * fanotify(7), and when its last holder ends the kernel allows all waiting ones: so the keeper makes the
 * group, and sbx-activity inherits it. When that is killed, the keeper denies the waiting questions, restarts
 * it, and denies new ones until it follows: it signals that it is ready, and its standard input ends when the
 * keeper stops reading. Allowed meanwhile are files that sbx-activity itself opens, and the agent, without
 * which it would not get its key. In Perl: a second Deno would be 30 MB.
 *
 * Usage: sbx-keeper AGENT DENO ARGUMENT…; sbx-activity gets the number of the group. It opens no file once
 * the kernel asks, so as not to wait for itself. Ending the keeper ends sbx-activity too.
 */
export const KEEPER = `#!${LAYER_PATH}/bin/perl
use strict;
use Config;

my ($agent, @deno) = @ARGV;
my $arm = $Config{archname} =~ /^aarch64/;
my ($CLOSE, $PRCTL, $INIT, $KCMP) = $arm ? (57, 167, 262, 272) : (3, 157, 300, 312);
my $LARGEFILE = $arm ? 0400000 : 0100000;
my ($EVENTS, $EVENT_BYTES, $FILES_MAX) = (64, 24, ${HELD_FILES_MAX});
my ($ALLOW, $DENY) = (1, 2);
# What sbx-activity has open is its own; numbers of Perl's files are handed on.
$^F = 255;
if (open(my $score, ">", "/proc/self/oom_score_adj")) { print $score "-1000"; close $score }

# FAN_CLASS_CONTENT, FAN_UNLIMITED_QUEUE, FAN_REPORT_TID; O_CLOEXEC and O_LARGEFILE for the files in question.
my $fd = syscall($INIT, 4 | 0x10 | 0x100, 02000000 | $LARGEFILE);
my $group;
open($group, "+<&=", $fd) if $fd >= 0;
my ($follows, $child) = (0, 0);
$SIG{USR1} = sub { $follows = 1 };
$SIG{CHLD} = sub { };

sub answer { syswrite($group, pack("lL", @_)) }

sub is_allowed {
  my $thread = shift;
  return -d "/proc/$child/task/$thread" || syscall($KCMP, $agent, $thread, 1, 0, 0) == 0;
}

sub serve {
  my $ready = "";
  vec($ready, $fd, 1) = 1 if $group;
  return unless select($ready, undef, undef, 1) > 0 && !$follows;
  my $read = sysread($group, my $bytes, $EVENTS * $EVENT_BYTES) or return;
  for (my $at = 0; $at + $EVENT_BYTES <= $read; $at += $EVENT_BYTES) {
    my ($file, $thread) = unpack("ll", substr($bytes, $at + 16, 8));
    answer($file, is_allowed($thread) ? $ALLOW : $DENY);
    syscall($CLOSE, $file);
  }
}

for (my $pause = 0;; $pause = 1) {
  pipe(my $follow, my $keep) or die "sbx-keeper: no pipe: $!\\n";
  $follows = 0;
  $child = fork() // die "sbx-keeper: cannot start a program: $!\\n";
  if ($child == 0) {
    # PR_SET_PDEATHSIG
    syscall($PRCTL, 1, 9, 0, 0, 0);
    open(STDIN, "<&", $follow);
    close $follow;
    close $keep;
    select(undef, undef, undef, $pause);
    exec(@deno, "${LAYER_PATH}/sbx-activity.js", $fd) or die "sbx-keeper: $deno[0]: $!\\n";
  }
  close $follow;
  my $ended = 0;
  until ($follows || $ended) {
    serve();
    $ended = waitpid($child, 1) == $child;
  }
  close $keep;
  until ($ended) { $ended = waitpid($child, 0) == $child }
  # Of the files in question, which were open in the program that has ended, only the numbers are left.
  if ($group) { answer($_, $DENY) for 0 .. $FILES_MAX - 1 }
}
`;
