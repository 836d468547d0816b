/** Path in the image of the program that `sbx ssh-config` names; without the leading slash. */
export const SSHD_PATH = "usr/bin/sbx-sshd";

/**
 * Serves one SSH connection on its standard streams, for the public key that is its argument
 * (docs/guides/editors.md). No port is opened: who can run programs in the VM can run this one. Its sessions
 * have the variables that it has; one whose value has several lines is left out.
 *
 * The key of the VM is made for its first connection and is gone when it stops.
 */
export const SSHD = `#!/bin/sh
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
