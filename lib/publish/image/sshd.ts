/** The SSH server of a guest, which no port leads to. */
import { LAYER_PATH } from "../../machine/guest/wire/mod.ts";

const BIN = `${LAYER_PATH}/bin`;

/**
 * Serves one SSH connection on its standard streams, for the public key that is its argument
 * (docs/guides/editors.md). No port is opened: who can run programs in the VM can run this one. Its sessions
 * have the variables that it has; one whose value has several lines is left out.
 *
 * The key of the VM is made for its first connection and is gone when it stops.
 */
export const SSHD = `#!${BIN}/sh
set -eu
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT OPENSSL_MODULES OPENSSL_ENGINES
umask 077
dir=/run/sbx/ssh
mkdir -p "$dir" /run/sshd
# sshd asks for its user, which an image without it lacks.
grep -q '^sshd:' /etc/passwd || echo "sshd:x:65533:65534::/run/sshd:/bin/false" >>/etc/passwd
if [ ! -s "$dir/host_key" ]; then
  OPENSSL_CONF=/dev/null ${BIN}/ssh-keygen -q -t ed25519 -N '' -C '' -f "$dir/host_key.$$" </dev/null >/dev/null
  mv "$dir/host_key.$$" "$dir/host_key"
  rm "$dir/host_key.$$.pub"
fi
sessions=
[ ! -x ${BIN}/sshd-session ] || sessions="SshdSessionPath ${BIN}/sshd-session
"
[ ! -x ${BIN}/sshd-auth ] || sessions="\${sessions}SshdAuthPath ${BIN}/sshd-auth
"
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
\${sessions}SetEnv $variables
CONFIG
mv "$dir/config.$$" "$dir/config"
umask 022
# A configuration of OpenSSL names libraries, which it loads.
OPENSSL_CONF=/dev/null exec ${BIN}/sshd -i -e -f "$dir/config"
`;
