import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { findLedger } from "./ledger_path.ts";
import { pairs, usageError } from "../output.ts";
import {
  ensureSigningKey,
  formatPublicKey,
  parsePublicKeys,
  readMachineKey,
} from "../../../lib/release/signing/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Certificate, certifySession } from "../../../lib/lab/certify/mod.ts";
import { ENVELOPE_BYTES_MAX, type PublicKey } from "../../../lib/release/mod.ts";

export const command: Command = {
  name: "certify",
  usage: "NAME|SESSION|FILE [--out FILE] | --verify FILE [LEDGER] [--key FILE] | --public-key [--out FILE]",
  summary: "sign a certificate of a session, or verify one offline",
  notes: [
    "A certificate has the origin of a session, its active rules at every time, their decisions, the " +
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
  completes: [{ either: ["sessions", "files"] }],
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
  const { text, certificate } = await certifySession(home(), path, session);
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

/** Certificates and public keys may be published. */
const MODE = 0o644;

/** Public key of this machine, in PEM; makes the key if it does not exist. */
async function machinePublicKey(): Promise<string> {
  return formatPublicKey((await ensureSigningKey(home())).publicKey);
}

/** Keys accepted for signatures: a file's keys, or this machine's. */
export async function trustedKeys(file: string | undefined): Promise<PublicKey[]> {
  if (file !== undefined) return parsePublicKeys(new TextDecoder().decode(await readInput(file)), file);
  const own = await readMachineKey(home());
  return own ? [own] : [];
}

/** Reads a file of a bounded size. @throws {SbxError} `certify.not_found`, `certify.too_large` */
export async function readInput(path: string): Promise<Uint8Array> {
  try {
    const { size } = await Deno.stat(path);
    if (size <= ENVELOPE_BYTES_MAX) return await Deno.readFile(path);
  } catch (cause) {
    const isMissing = cause instanceof Deno.errors.NotFound;
    const reason = isMissing ? "there is no such file" : asSbxError(cause, "reading it").message;
    throw new SbxError("certify.not_found", `${path} cannot be read: ${reason}`, {
      cause,
      hint: "check the path",
    });
  }
  throw new SbxError("certify.too_large", `${path} is over ${ENVELOPE_BYTES_MAX} bytes`, {
    hint: "name a file that sbx certify wrote",
  });
}

/** Writes a text that ends with a newline to a file, or to standard output. */
async function writeOutput(path: string | undefined, text: string): Promise<void> {
  if (path === undefined) await print(text.trimEnd());
  else await writeAtomic(path, text, MODE);
}

/** The content of a certificate, in a few lines. */
function describeCertificate({ predicate }: Certificate): string {
  const { session_id, made_at, made_by, ledger, facts: { boots, contracts, evidence } } = predicate;
  const last = contracts.rows.at(-1);
  const sum = (list: { rows: Record<string, unknown>[] }, key: string) =>
    list.rows.reduce((total, row) => total + Number(row[key] ?? 0), 0);
  const decided = evidence.decisions.rows.map(({ family, decision, events }) =>
    `${family} ${decision} ${events}`
  );
  return pairs([
    ["session", session_id],
    ["made", `${made_at} by ${made_by.user} on ${made_by.device}, sbx ${made_by.sbx.version}`],
    ["record", `${count(ledger.events, "event")}, head ${ledger.head_hash}`],
    ["seal", SEALS[ledger.seal]],
    [
      "boots",
      boots.rows.map(({ started, accelerator, image }) => `${started} ${accelerator} ${image.version}`).join(
        ", ",
      ),
    ],
    ["profile", last && `${last.profile_id} ${last.profile_revision}`],
    ["contracts", `${contracts.rows.length + contracts.omitted} in force over time`],
    ["decisions", decided.join(", ") || "none"],
    [
      "hosts",
      `${evidence.hosts.rows.length + evidence.hosts.omitted}, ${
        count(sum(evidence.hosts, "requests"), "request")
      }`,
    ],
    ["credentials", `${evidence.credentials.rows.length + evidence.credentials.omitted}`],
    ["findings", `${sum(evidence.findings, "findings")}`],
    ["gaps", `${evidence.gaps.rows.length + evidence.gaps.omitted}`],
  ]);
}

const SEALS = {
  signed: "signed by this key: the record ended there",
  unsigned: "not signed: anyone who could write the file could have changed the record before",
  none: "none: the session was running, or its end is not proven",
};
