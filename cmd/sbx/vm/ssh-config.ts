import { join } from "node:path";
import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { siblingProgram } from "../../../lib/base/spawn/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../usage.ts";
import { installSshConfig, sshConfig, sshKey } from "./ssh.ts";

export const command: Command = {
  name: "ssh-config",
  usage: "[NAME…] [--install | --alone] [--json]",
  summary: "print a configuration for SSH clients; a VM is NAME.sbx",
  notes: [
    "Editors, scp and rsync use it too. Without NAME it is for all VMs. No port is opened: each connection is a program sbx-sshd in the VM, which policy decides on.",
    "--install puts it into ~/.ssh/sbx.conf, which ~/.ssh/config includes from then on; do it again for new VMs.",
    "Forwards are off in it, since those of ~/.ssh/config would hold too. --alone prints one in which ssh -L and editors may forward, for ssh -F; --install also writes it, to ~/.ssh/sbx-alone.conf.",
  ],
  options: [
    { name: "install", about: "for the user's own SSH clients" },
    { name: "alone", about: "for ssh -F, which reads no other configuration" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completesNames: true,
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
