/** SSH into VMs: a client's configuration, whose connections are programs that sbx runs. */
import { dirname, join } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type Home, writeAtomic } from "../../lib/base/home/mod.ts";

/** End of the names by which SSH clients know VMs. */
const SUFFIX = ".sbx";
const KEY = "id_ed25519";
/** File beside the user's own configuration, and the line in that which includes it. */
const INCLUDED = "sbx.conf";
const INCLUDE = `Include ${INCLUDED}`;

/** What an SSH client needs to know. */
export interface SshAccess {
  /** the launcher of sbx */
  sbx: string;
  /** SBX_HOME, where it is set */
  home?: string;
  /** file of the private key */
  identity: string;
  /** its public key, a line without a comment */
  publicKey: string;
}

/**
 * The key pair by which VMs know this home's user, made when there is none. It opens nothing but an SSH server that this
 * user starts.
 *
 * @throws {SbxError} `ssh.unavailable`: there is no ssh-keygen
 */
export async function sshKey({ dir }: Pick<Home, "dir">): Promise<Pick<SshAccess, "identity" | "publicKey">> {
  const folder = join(dir, "ssh");
  const identity = join(folder, KEY);
  if (!await Deno.stat(folder).then(() => true, () => false)) await make(folder);
  const text = await Deno.readTextFile(`${identity}.pub`).catch(() => "");
  const [kind, key] = text.trim().split(" ");
  if (kind === "ssh-ed25519" && /^[A-Za-z0-9+/=]+$/.test(key ?? "")) {
    return { identity, publicKey: `${kind} ${key}` };
  }
  throw new SbxError("ssh.unavailable", `${identity}.pub is not a public key of Ed25519`, {
    hint: `remove ${folder}: sbx ssh-config makes new keys`,
  });
}

/** Makes the pair beside its place, and moves it there as a whole: two at once leave one. */
async function make(folder: string): Promise<void> {
  const work = await Deno.makeTempDir({ dir: dirname(folder), prefix: ".ssh-" });
  try {
    const { success, stderr } = await new Deno.Command("ssh-keygen", {
      args: ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", join(work, KEY)],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr).trim());
    await Deno.rename(work, folder).catch(async (error) => {
      if (!await Deno.stat(folder).then(() => true, () => false)) throw error;
    });
  } catch (cause) {
    throw new SbxError("ssh.unavailable", `no key for SSH could be made: ${(cause as Error).message}`, {
      cause,
      hint: "install the OpenSSH client (Debian: apt install openssh-client)",
    });
  } finally {
    await Deno.remove(work, { recursive: true }).catch(() => {});
  }
}

/**
 * Entries for VMs. A server in a VM is nobody to trust: nothing of the host is forwarded to it, and its key need not be known,
 * since the connection is a program that sbx runs in the VM of that name.
 */
export function sshConfig(names: string[], { sbx, home, identity, publicKey }: SshAccess): string {
  const program = `${home === undefined ? "" : `env SBX_HOME=${word(home)} `}${word(sbx)}`;
  const entries = names.map((name) =>
    `Host ${name}${SUFFIX}
  ProxyCommand ${program} exec -i ${name} -- sbx-sshd ${word(publicKey)}
`
  );
  const common = names.length === 0 ? "" : `Host ${names.map((name) => name + SUFFIX).join(" ")}
  User root
  IdentityFile ${JSON.stringify(identity)}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  UpdateHostKeys no
  LogLevel ERROR
  ForwardAgent no
  ForwardX11 no
  RequestTTY auto
`;
  return ["# Made by sbx ssh-config; it replaces this file.\n", ...entries, common].join("");
}

/** Puts the entries in a file of their own, which the user's configuration includes from then on. @returns its path */
export async function installSshConfig(config: string, sshDir: string): Promise<string> {
  await Deno.mkdir(sshDir, { recursive: true, mode: 0o700 });
  const path = join(sshDir, INCLUDED);
  await writeAtomic(path, config);
  const main = join(sshDir, "config");
  const info = await Deno.lstat(main).catch(() => null);
  if (info?.isSymlink) {
    throw new SbxError("ssh.config", `${main} is a link, which is not written`, {
      hint: `add the line "${INCLUDE}" at its beginning`,
    });
  }
  const text = info ? await Deno.readTextFile(main) : "";
  // After a Host line it would hold for that host alone.
  if (!text.split("\n").includes(INCLUDE)) {
    await writeAtomic(main, `${INCLUDE}\n\n${text}`, info?.mode ? info.mode & 0o777 : 0o600);
  }
  return path;
}

/** One word of a shell's command line; `%` begins what an SSH client replaces. */
function word(text: string): string {
  return `'${text.replaceAll("'", `'\\''`).replaceAll("%", "%%")}'`;
}
