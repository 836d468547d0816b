import { formatJson, note, print } from "../../lib/base/print/mod.ts";
import {
  type Arguments,
  type Command,
  type CommandGroup,
  JSON_OPTION,
  type Option,
} from "../../lib/base/args/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { type Ca, openCa, rotateCa } from "../../lib/network/ca/mod.ts";

const OPTIONS: Option[] = [{ name: "pem", about: "print the certificate as PEM" }, JSON_OPTION];

/** `sbx-admin ca show`: prints the CA certificate trusted by VMs; creates it on first use. */
const caShow: Command = {
  name: "ca show",
  usage: "[--pem | --json]",
  summary: "show the CA certificate that VMs trust for inspected connections",
  options: OPTIONS,
  examples: ["sbx-admin ca show", "sbx-admin ca show --pem > ca.pem"],
  async run(args) {
    await report(await openCa(home()), args);
    return 0;
  },
};

/** `sbx-admin ca rotate`: replaces the CA; running VMs keep the old one. */
const caRotate: Command = {
  name: "ca rotate",
  usage: "[--pem | --json]",
  summary: "replace the CA certificate and its key; VMs trust the new one from their next start",
  options: OPTIONS,
  examples: ["sbx-admin ca rotate"],
  async run(args) {
    await report(await rotateCa(home()), args);
    // On standard error: standard output may be PEM or JSON.
    note("running VMs keep the old CA until they are restarted: sbx list shows them");
    return 0;
  },
};

async function report({ certificate, fingerprint, files }: Ca, args: Arguments): Promise<void> {
  if (args.has("pem")) return await print(certificate.trimEnd());
  const fields = {
    fingerprint_sha256: fingerprint,
    certificate_path: files.certificate,
    key_path: files.key,
  };
  if (args.has("json")) return await print(formatJson({ ...fields, certificate }));
  await print(`SHA-256      ${fingerprint.replace(/..(?!$)/g, "$&:").toUpperCase()}`);
  await print(`certificate  ${files.certificate}`);
  await print(`key          ${files.key} (never leaves this machine)`);
}

export const group: CommandGroup = {
  name: "ca",
  summary: "show and replace the CA of inspected connections",
  subcommands: [caShow, caRotate],
};
