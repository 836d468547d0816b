import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import {
  certify,
  describeCertificate,
  machinePublicKey,
  readInput,
  trustedKeys,
  writeOutput,
} from "./certificate.ts";
import { findLedger } from "./ledger_path.ts";
import { usageError } from "../usage.ts";

export const command: Command = {
  name: "certify",
  usage: "NAME|SESSION|FILE [--out FILE] | --verify FILE [LEDGER] [--key FILE] | --public-key [--out FILE]",
  summary: "sign what a session did, or verify such a certificate offline",
  notes: [
    "A certificate says what a session was started from, which rules were in force when, what they decided, the " +
    "hosts and credentials it used, its findings and gaps, and where its record ended. The key of this machine signs it.",
    "--verify needs no service and no network; with LEDGER, it compares every fact with that record.",
  ],
  options: [
    { name: "out", value: "FILE", about: "write it there instead of to standard output" },
    { name: "verify", value: "FILE", about: "verify this certificate" },
    {
      name: "key",
      value: "FILE",
      about: "public keys that may have signed it (PEM); default: that of this machine",
    },
    { name: "public-key", about: "write the public key of this machine, for those who verify" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completesNames: true,
  examples: [
    "sbx certify demo --out demo.cert.json",
    "sbx certify --public-key --out machine.pem",
    "sbx certify --verify demo.cert.json session.db --key machine.pem",
  ],
  async run(args) {
    const file = args.text("verify");
    if (args.has("public-key")) await writeOutput(args.text("out"), await machinePublicKey());
    else if (file !== undefined) await verify(args, file);
    else await make(args);
    return 0;
  },
};

async function make(args: Arguments): Promise<void> {
  const [word] = args.words;
  if (word === undefined) throw usageError(command, "name a session, or a certificate with --verify");
  const { path, session } = await findLedger(word);
  const { text, certificate } = await certify(path, session);
  const out = args.text("out");
  await writeOutput(out, text);
  if (out === undefined) return;
  if (args.has("json")) await printJson({ out, certificate });
  else await print(describeCertificate(certificate));
}

async function verify(args: Arguments, file: string): Promise<void> {
  const { compareWithLedger, verifyCertificate } = await import("../../../lib/lab/certify/mod.ts");
  const trusted = await trustedKeys(args.text("key"));
  const { certificate, key } = await verifyCertificate(await readInput(file), trusted, file);
  const [ledger] = args.words;
  if (ledger !== undefined) await compareWithLedger(certificate, (await findLedger(ledger)).path, trusted);
  if (args.has("json")) return await printJson({ ok: true, key, ledger: ledger ?? null, certificate });
  const also = ledger === undefined ? "" : `, and ${ledger} says the same`;
  await print(`${file}: valid, signed with the key ${key}${also}\n${describeCertificate(certificate)}`);
}
