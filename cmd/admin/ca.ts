import { type Ca, openCa, rotateCa } from "../../lib/ca/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** `sbx-admin ca show`: the certificate that VMs trust; makes it when there is none yet. */
export const caShow: Command = {
  name: "ca show",
  synopsis: "[--pem | --json]",
  summary: "show the certificate by which VMs trust this machine's network proxy",
  async run(args) {
    const { switches } = parseArguments(args, { values: [], switches: ["pem", "json"], positionals: [] });
    print(await openCa(home()), switches);
    return 0;
  },
};

/** `sbx-admin ca rotate`: VMs that run keep the CA that they were started with. */
export const caRotate: Command = {
  name: "ca rotate",
  synopsis: "[--pem | --json]",
  summary: "replace that certificate and its key; VMs trust the new one from their next start",
  async run(args) {
    const { switches } = parseArguments(args, { values: [], switches: ["pem", "json"], positionals: [] });
    print(await rotateCa(home()), switches);
    // Not to standard output: that may be a PEM file, or JSON.
    console.error("VMs that run keep the old CA until they are stopped and started: sbx list shows them");
    return 0;
  },
};

function print({ certificate, fingerprint, files }: Ca, switches: Set<string>): void {
  if (switches.has("pem")) return console.log(certificate.trimEnd());
  const report = {
    fingerprint_sha256: fingerprint,
    certificate_path: files.certificate,
    key_path: files.key,
  };
  if (switches.has("json")) return console.log(JSON.stringify({ ...report, certificate }));
  console.log(`SHA-256      ${fingerprint.replace(/..(?!$)/g, "$&:").toUpperCase()}`);
  console.log(`certificate  ${files.certificate}`);
  console.log(`key          ${files.key} (never leaves this machine)`);
}
