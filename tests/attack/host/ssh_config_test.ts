/**
 * A hostile or careless ~/.ssh/config around the entries of VMs: the system's own SSH
 * client gives their servers nothing.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { installSshConfig, sshConfig } from "../../../cmd/sbx/vm/ssh-config.ts";
import { runChild } from "../../helper/child.ts";

const ACCESS = { sbx: "/opt/sbx", identity: "/home/me/ssh/id_ed25519", publicKey: "ssh-ed25519 AAAA" };

/** Options of a person's configuration that hand something of the host to a server. */
const GIVING = `
  SendEnv AWS_* ANTHROPIC_API_KEY
  SetEnv SECRET=1
  RemoteForward 9000 127.0.0.1:22
  RemoteForward 9001
  LocalForward 9002 127.0.0.1:22
  DynamicForward 9003
  ForwardAgent yes
  IdentityAgent ~/.ssh/agent.sock
  AddKeysToAgent yes
  IdentitiesOnly no
  PKCS11Provider /usr/lib/pkcs11.so
  ForwardX11 yes
  ForwardX11Trusted yes
  GSSAPIAuthentication yes
  GSSAPIDelegateCredentials yes
  PasswordAuthentication yes
  KbdInteractiveAuthentication yes
  HostbasedAuthentication yes
  PreferredAuthentications password,keyboard-interactive
  PermitLocalCommand yes
  LocalCommand touch /tmp/local
  RemoteCommand env
  KnownHostsCommand /bin/sh -c env
  Tunnel yes
  CanonicalizeHostname always
  CanonicalDomains evil.example
  HostName evil.example
  ProxyJump jump.example
  User me
  UserKnownHostsFile ~/.ssh/known_hosts
`;

const HOSTILE: Record<string, string> = {
  "for every host": `Host *${GIVING}`,
  "for the names of VMs": `Host *.sbx dev.sbx${GIVING}`,
  "in a last pass": `Match final all${GIVING}`,
  "by the name of the host": `Match originalhost dev.sbx${GIVING}Match host *${GIVING}`,
  "before every block": GIVING,
};

/** What the entries of sbx say of each, as `ssh -G` prints it; absent: not printed. */
const NOTHING: Record<string, string | undefined> = {
  sendenv: undefined,
  setenv: "SBX_SSH=1",
  remoteforward: undefined,
  localforward: undefined,
  dynamicforward: undefined,
  forwardagent: "no",
  identityagent: "none",
  addkeystoagent: "false",
  identitiesonly: "yes",
  pkcs11provider: undefined,
  forwardx11: "no",
  forwardx11trusted: "no",
  gssapiauthentication: "no",
  gssapidelegatecredentials: "no",
  passwordauthentication: "no",
  kbdinteractiveauthentication: "no",
  hostbasedauthentication: "no",
  preferredauthentications: "publickey",
  permitlocalcommand: "no",
  remotecommand: undefined,
  knownhostscommand: undefined,
  tunnel: "false",
  canonicalizehostname: "false",
  hostname: "dev.sbx",
  proxyjump: undefined,
  proxycommand: "'/opt/sbx' exec -i dev -- sbx-sshd 'ssh-ed25519 AAAA'",
  user: "root",
  userknownhostsfile: "/dev/null",
};

for (const [name, hostile] of Object.entries(HOSTILE)) {
  Deno.test(`ssh gives a VM's server nothing of the host: options ${name}`, async () => {
    const dir = await Deno.makeTempDir();
    try {
      const main = join(dir, "config");
      await Deno.writeTextFile(main, hostile);
      const beside = sshConfig(["dev"], ACCESS);
      await installSshConfig({ beside, alone: sshConfig(["dev"], ACCESS, { isAlone: true }) }, dir);
      // ssh looks in the folder of the user database, not in that of HOME.
      const text = await Deno.readTextFile(main);
      await Deno.writeTextFile(main, text.replace("Include sbx.conf", `Include ${join(dir, "sbx.conf")}`));
      for (const config of [main, join(dir, "sbx-alone.conf")]) {
        const options = await optionsOf(config, "dev.sbx");
        const found = Object.fromEntries(Object.keys(NOTHING).map((key) => [key, options.get(key)]));
        assertEquals(found, NOTHING, config);
      }
      const other = await optionsOf(main, "other.example");
      assertEquals(other.has("sendenv"), name !== "for the names of VMs", "other hosts keep theirs");
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
}

async function optionsOf(config: string, host: string): Promise<Map<string, string>> {
  const { code, stdout, stderr } = await runChild("ssh", { args: ["-G", "-F", config, host] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new Map(
    new TextDecoder().decode(stdout).split("\n").map((line) => {
      const [name, ...value] = line.split(" ");
      return [name, value.join(" ")];
    }),
  );
}
