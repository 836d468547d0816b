/** SSH into VMs: a client's configuration, whose connections are programs run by sbx. */
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, writeAtomic } from "../../../lib/base/home/mod.ts";

/** End of the names by which SSH clients know VMs. */
const SUFFIX = ".sbx";
const KEY = "id_ed25519";
/** File beside the user's own configuration, and the line in that which includes it. */
const INCLUDED = "sbx.conf";
const INCLUDE = `Include ${INCLUDED}`;
/** File for `ssh -F` and editors that forward ports; no other configuration is read with it. */
const ALONE = "sbx-alone.conf";
/**
 * End of the user's configuration. The first value of an option wins, but names of variables accumulate: they
 * are removed after the last of them.
 */
const LAST = `# From here on made by sbx ssh-config; keep it last.
Match originalhost *${SUFFIX}
  SendEnv -*
`;
/**
 * Options that would expose the host to a VM's server, each with the value that prevents it. They come first,
 * so no value of the user's or the system's configuration counts.
 */
const NOTHING_OF_THE_HOST: Record<string, string> = {
  // Options that older clients do not know.
  IgnoreUnknown: "KnownHostsCommand,GSSAPIKeyExchange",
  CanonicalizeHostname: "no",
  ForwardAgent: "no",
  IdentityAgent: "none",
  AddKeysToAgent: "no",
  IdentitiesOnly: "yes",
  PKCS11Provider: "none",
  PreferredAuthentications: "publickey",
  PasswordAuthentication: "no",
  KbdInteractiveAuthentication: "no",
  HostbasedAuthentication: "no",
  GSSAPIAuthentication: "no",
  GSSAPIDelegateCredentials: "no",
  GSSAPIKeyExchange: "no",
  ForwardX11: "no",
  ForwardX11Trusted: "no",
  Tunnel: "no",
  // Only the first SetEnv counts.
  SetEnv: "SBX_SSH=1",
  PermitLocalCommand: "no",
  RemoteCommand: "none",
  KnownHostsCommand: "none",
};

/** The paths and the key for an SSH client's configuration. */
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
 * The key pair by which VMs recognise this home's user, made on first use. It opens only SSH servers that
 * this user starts.
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

/** Makes the pair in another folder, and moves it as a whole: two runs at a time leave one pair. */
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
 * Entries for VMs. A server in a VM may be hostile: it gets nothing of the host, and its key need not be known, since the
 * connection is a program that sbx runs in the VM of that name.
 *
 * @param isAlone no other configuration is read with it, so the forwards of a command line are the only ones; beside another
 * one all are off, since no option refuses that one's alone
 */
export function sshConfig(names: string[], access: SshAccess, { isAlone = false } = {}): string {
  const { sbx, home, identity, publicKey } = access;
  const program = `${home === undefined ? "" : `env SBX_HOME=${word(home)} `}${word(sbx)}`;
  const entries = names.map((name) =>
    `Host ${name}${SUFFIX}
  HostName ${name}${SUFFIX}
  ProxyCommand ${program} exec -i ${name} -- sbx-sshd ${word(publicKey)}
`
  );
  const options = { ...NOTHING_OF_THE_HOST, ...!isAlone && { ClearAllForwardings: "yes" } };
  const common = names.length === 0 ? "" : `Host ${names.map((name) => name + SUFFIX).join(" ")}
  User root
  IdentityFile ${JSON.stringify(identity)}
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  UpdateHostKeys no
  LogLevel ERROR
  RequestTTY auto
${Object.entries(options).map(([name, value]) => `  ${name} ${value}\n`).join("")}`;
  return ["# Made by sbx ssh-config; it replaces this file.\n", ...entries, common].join("");
}

/**
 * Writes the entries to files of their own. From then on the user's configuration includes the first file at
 * its beginning, and ends with the entries that must come last.
 *
 * @returns path of the included file
 * @throws {SbxError} `ssh.config`: the user's configuration is a link
 */
export async function installSshConfig(
  { beside, alone }: { beside: string; alone: string },
  sshDir: string,
): Promise<string> {
  await Deno.mkdir(sshDir, { recursive: true, mode: 0o700 });
  const path = join(sshDir, INCLUDED);
  await writeAtomic(path, beside);
  await writeAtomic(join(sshDir, ALONE), alone);
  const main = join(sshDir, "config");
  const info = await Deno.lstat(main).catch(() => null);
  const text = info ? await Deno.readTextFile(main) : "";
  // After a Host line it would hold for that host alone, and after another value it would not count.
  const own = text.replaceAll(LAST, "").split("\n").filter((line) => line.trim() !== INCLUDE).join("\n")
    .trim();
  const wanted = `${INCLUDE}\n\n${own === "" ? "" : `${own}\n\n`}${LAST}`;
  if (text === wanted) return path;
  if (info?.isSymlink) {
    throw new SbxError("ssh.config", `${main} is a link, which is not written`, {
      hint: `add the line "${INCLUDE}" at its beginning, and at its end the lines:\n${LAST.trimEnd()}`,
    });
  }
  await writeAtomic(main, wanted, info?.mode ? info.mode & 0o777 : 0o600);
  return path;
}

/** One word of a shell's command line; `%` starts a token that SSH clients replace. */
function word(text: string): string {
  // deno-lint-ignore no-control-regex
  if (/[\x00-\x1f\x7f]/.test(text)) {
    throw new SbxError(
      "usage.invalid",
      `ssh cannot be given ${JSON.stringify(text)}: it has a control character`,
      {
        hint: "move sbx, or its home, to a folder without one in its path",
      },
    );
  }
  return `'${text.replaceAll("'", `'\\''`).replaceAll("%", "%%")}'`;
}
