import { dirname, join } from "node:path";
import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { asSbxError, ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { siblingProgram } from "../../../lib/base/spawn/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";

export const command: Command = {
  name: "ssh-config",
  usage: "[NAME…] [--install | --alone] [--json]",
  summary: "print a configuration for SSH clients; a VM is NAME.sbx",
  notes: [
    "Editors, scp and rsync use it too. Without NAME it covers all VMs. No port is opened: each connection is a program sbx-sshd in the VM, subject to its policy.",
    "--install puts it into ~/.ssh/sbx.conf, which ~/.ssh/config includes from then on; repeat it for new VMs.",
    "Forwards are off in it, since forwards of ~/.ssh/config would apply too. --alone prints one in which ssh -L and editors may forward, for ssh -F; --install also writes it, to ~/.ssh/sbx-alone.conf.",
  ],
  options: [
    { name: "install", about: "for the user's own SSH clients" },
    { name: "alone", about: "for ssh -F, which reads no other configuration" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completes: ["vms"],
  examples: ["sbx ssh-config demo", "sbx ssh-config --install && ssh demo.sbx"],
  async run(args) {
    const client = await connect();
    const names = args.words.length > 0
      ? await Promise.all(args.words.map(async (name) => {
        return (await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`)).name;
      }))
      : (await client.json<{ vms: VmInfo[] }>("GET", "/vms/list")).vms.map(({ name }) => name);
    const access = {
      sbx: await siblingProgram("sbx") ?? "sbx",
      home: Deno.env.get("SBX_HOME"),
      ...await sshKey(home()),
    };
    if (args.has("install") && args.has("alone")) {
      throw usageError(command, "--install and --alone exclude each other", "--install writes both files");
    }
    if (!args.has("install")) {
      const config = sshConfig(names, access, { isAlone: args.has("alone") });
      await (args.has("json") ? printJson({ config }) : print(config.trimEnd()));
      return 0;
    }
    const folder = Deno.env.get("HOME");
    if (!folder) throw new SbxError("ssh.config", "there is no HOME, whose .ssh would be written");
    const files = { beside: sshConfig(names, access), alone: sshConfig(names, access, { isAlone: true }) };
    const path = await installSshConfig(files, join(folder, ".ssh"));
    if (args.has("json")) await printJson({ path, hosts: names.map((name) => `${name}.sbx`) });
    else await print(`${path}: ${names.map((name) => `ssh ${name}.sbx`).join(", ") || "there is no VM yet"}`);
    return 0;
  },
};

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
interface SshAccess {
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
 * @throws {SbxError} `ssh.unavailable`: ssh-keygen is not installed, or failed
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
    if (!success) {
      const problem = new TextDecoder().decode(stderr).trim();
      throw new SbxError("ssh.unavailable", `ssh-keygen made no key: ${problem}`, {
        hint: `${dirname(folder)} must be writable`,
      });
    }
    await Deno.rename(work, folder).catch(async (error) => {
      if (!await Deno.stat(folder).then(() => true, () => false)) throw error;
    });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw asSbxError(cause, "making a key for SSH");
    throw new SbxError("ssh.unavailable", "making a key for SSH needs ssh-keygen, which is not installed", {
      cause,
      hint: "install the OpenSSH client (Debian: apt install openssh-client)",
    });
  } finally {
    // Moved away, unless another run was faster.
    await ifFound(Deno.remove(work, { recursive: true }));
  }
}

/**
 * Entries for VMs. A server in a VM may be hostile: it gets nothing of the host, and its key need not be
 * known, since the connection is a program that sbx runs in the VM of that name.
 *
 * @param isAlone no other configuration is read with it, so the forwards of a command line are the only ones;
 * beside another one all are off, since no option refuses that one's alone
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
