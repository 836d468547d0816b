/** Guest program that compares the VM's own changes with the changes from its old image to its new one. */
import { LAYER_PATH } from "../../machine/guest/wire/mod.ts";
import { CONFLICTS_MAX } from "../../release/environment/mod.ts";

/**
 * The program, in Perl: it prints a line `KIND PATH` for each path that both the VM and the new image have
 * changed, and `total N` at the end. Bytes of a path other than letters, digits and some signs are %XX.
 *
 * It reads three trees in init's root (lib/publish/image/init.ts), and follows no link in them: `before`, the
 * old image; `lower`, the new one; `upper`, the VM's changes as overlayfs keeps them: a character device 0/0
 * is a deletion, and a folder with `trusted.overlay.opaque` replaces the image's. It compares type, owner,
 * mode and content.
 *
 * | kind | VM | new image |
 * |---|---|---|
 * | `changed` | changed it | changed it |
 * | `added` | added it | added it, with other content |
 * | `removed` | changed it | removed it |
 * | `deleted` | deleted it | changed it |
 * | `replaced` | replaced the folder | changed the folder |
 */
export const CONFLICTS = `#!${LAYER_PATH}/bin/perl -I${LAYER_PATH}/perl
use strict;

my $root = "/proc/1/root";
my ($before, $after) = ("$root/before", "$root/lower");
my $upper = "$root/upper/data";
my ($here, $mounted) = ((stat $root)[0], (stat $before)[0]);
defined $here && defined $mounted && $here != $mounted or die "sbx-conflicts: the image of before is not there\\n";
-d $upper or die "sbx-conflicts: the VM has no disk\\n";

# Files that sbx writes into every root file system.
my %own = map { ("/etc/$_" => 1) } qw(resolv.conf hosts hostname machine-id);
# The numbers of getxattr by architecture; Perl has no function for it.
my $getxattr = -e "${LAYER_PATH}/lib/ld-linux-aarch64.so.1" ? 8 : 191;
my $total = 0;

sub kind { ($_[0] // 0) & 0170000 }
sub is_folder { @_ && kind($_[2]) == 0040000 }

sub content_differs {
  my ($one, $other) = @_;
  open(my $a, "<:raw", $one) or return 1;
  open(my $b, "<:raw", $other) or return 1;
  for (;;) {
    my $n = read($a, my $x, 65536);
    my $m = read($b, my $y, 65536);
    return 1 if !defined $n || !defined $m || $x ne $y;
    return 0 if $n == 0;
  }
}

# Whether two trees differ.
sub differs {
  my ($one, $other) = @_;
  my @a = lstat $one;
  my @b = lstat $other;
  return @a != @b if !@a || !@b;
  return 1 if $a[2] != $b[2] || $a[4] != $b[4] || $a[5] != $b[5];
  my $kind = kind($a[2]);
  return readlink($one) ne readlink($other) if $kind == 0120000;
  return $a[6] != $b[6] if $kind == 0020000 || $kind == 0060000;
  return $a[7] != $b[7] || content_differs($one, $other) if $kind == 0100000;
  return 0 if $kind != 0040000;
  my %names = map { $_ => 1 } names($one), names($other);
  for (sort keys %names) { return 1 if differs("$one/$_", "$other/$_") }
  return 0;
}

sub names {
  opendir(my $handle, $_[0]) or return ();
  return grep { $_ ne "." && $_ ne ".." } readdir $handle;
}

sub is_opaque {
  my ($path, $name, $value) = ($_[0], "trusted.overlay.opaque", "\\0" x 8);
  return syscall($getxattr, $path, $name, $value, 8) > 0 && substr($value, 0, 1) eq "y";
}

sub conflict {
  my ($kind, $path) = @_;
  return if $total++ >= ${CONFLICTS_MAX};
  $path =~ s/([^A-Za-z0-9_.\\/+,:=@~-])/sprintf("%%%02X", ord $1)/ge;
  print "$kind $path\\n";
}

# Folders of the VM, and whether each image has a folder at that place.
my @folders = (["", 1, 1]);
while (my $folder = shift @folders) {
  my ($dir, $in_before, $in_after) = @$folder;
  for my $name (sort(names("$upper$dir"))) {
    my $path = "$dir/$name";
    next if $own{$path};
    my @u = lstat "$upper$path" or next;
    my @b = $in_before ? lstat "$before$path" : ();
    my @a = $in_after ? lstat "$after$path" : ();
    if (kind($u[2]) == 0020000 && $u[6] == 0) {
      conflict("deleted", $path) if @a && (!@b || differs("$before$path", "$after$path"));
    } elsif (is_folder(@u)) {
      my $opaque = is_opaque("$upper$path");
      if (@a && !is_folder(@a)) {
        conflict("changed", $path) if !@b || differs("$before$path", "$after$path");
      } elsif ($opaque) {
        conflict("replaced", $path) if @a && (!@b || differs("$before$path", "$after$path"));
      } else {
        push @folders, [$path, is_folder(@b) ? 1 : 0, is_folder(@a) ? 1 : 0];
      }
    } elsif (@a && !differs("$upper$path", "$after$path")) {
      next;
    } elsif (@b && @a) {
      conflict("changed", $path) if differs("$before$path", "$after$path");
    } elsif (@a) {
      conflict("added", $path);
    } elsif (@b) {
      conflict("removed", $path);
    }
  }
}
print "total $total\\n";
`;
