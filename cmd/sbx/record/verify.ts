import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { checkSeal } from "../../../lib/release/signing/mod.ts";
import type { Heads } from "../../../lib/lab/certify/mod.ts";
import { type Verification, verifyLedger, type Witnessed } from "../../../lib/ledger/read/mod.ts";
import { witnessOfFile } from "../../../lib/ledger/witness/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import type { PublicKey } from "../../../lib/release/mod.ts";
import { readInput, trustedKeys } from "./certify.ts";
import { findLedger } from "./ledger_path.ts";

export const command: Command = {
  name: "verify",
  usage: "NAME|SESSION|FILE [--head FILE] [--key FILE] [--json]",
  summary: "verify the record of a session",
  notes: [
    "Checks every event against the hash chain, and the record against its seal and the ends that the service saw while it was recorded.",
    "The exit code is 1 if the record is invalid.",
    "--head compares it with a seal, a collected head or a certificate that was kept elsewhere: the record up to then must be the same.",
  ],
  options: [
    { name: "head", value: "FILE", about: "signed head, seal or certificate of this record" },
    {
      name: "key",
      value: "FILE",
      about:
        "public keys (PEM) that must have signed the seal; default: that of this machine, if it is signed",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: [{ either: ["sessions", "files"] }],
  examples: [
    "sbx verify demo",
    "sbx verify 0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e",
    "sbx verify ./session.db --json",
  ],
  async run(args) {
    const { path, session } = await findLedger(args.words[0]);
    const [keyFile, headFile] = [args.text("key"), args.text("head")];
    const trusted = await trustedKeys(keyFile);
    const checked = await verifyLedger(
      path,
      session,
      (seal) => checkSeal(seal, trusted, keyFile !== undefined),
      // First: the record of a VM that runs grows.
      await witnessOfFile(home(), path),
    );
    // A record without a seal is not signed.
    const { ok, events, sealed, signed_by, witnessed, first_bad } =
      keyFile !== undefined && checked.ok && !checked.sealed
        ? { ...checked, ok: false, first_bad: { reason: "it has no seal that a key could have signed" } }
        : checked;
    const head = ok && headFile !== undefined ? await compareHead(path, headFile, trusted) : undefined;
    if (args.has("json")) {
      await printJson({ ok, path, events, sealed, signed_by, witnessed, head, first_bad });
    } else if (!ok) {
      await print(`${path}: INVALID after ${count(events, "valid event")}: ${describe(first_bad)}`);
    } else {
      await print(`${path}: valid, ${count(events, "event")} as recorded`);
      if (head) await print(`It has the ${count(head.events, "event")} of ${headFile}, unchanged.`);
      if (witnessed) await print(describeWitnessed(witnessed));
      else if (session !== undefined) await print(NOT_WITNESSED);
      if (!sealed) await print(describeUnsealed(witnessed));
      else if (!signed_by) await print(NOT_SIGNED);
      else {
        await print(
          signed_by.trusted ? `The seal is signed by ${signed_by.id}.` : UNKNOWN_SIGNER + signed_by.id,
        );
      }
    }
    return ok ? 0 : 1;
  },
};

async function compareHead(path: string, file: string, trusted: PublicKey[]): Promise<Heads> {
  const { compareWithHead } = await import("../../../lib/lab/certify/mod.ts");
  return await compareWithHead(path, await readInput(file), trusted, file);
}

const NOT_SIGNED = "The seal is not signed: anyone who can write both files could have changed the record.";
const UNKNOWN_SIGNER =
  "The seal is signed by a key that is not known here, so the signature proves nothing (--key): ";

const NOT_WITNESSED =
  "The service has witnessed nothing of it: an older sbx made it, or the file of its heads is gone.";

function describeWitnessed({ events, newer }: Witnessed): string {
  const upTo = events === 0
    ? "The service has witnessed its beginning."
    : `The service has witnessed it up to event ${events}.`;
  if (newer === 0) return upTo;
  return `${upTo} ${count(newer, "event")} ${
    newer === 1 ? "is" : "are"
  } newer than the end that the service saw.`;
}

/** Limits of a record without a seal. */
function describeUnsealed(witnessed: Witnessed | undefined): string {
  const unproven = witnessed
    ? "it is proven as far as the service has witnessed it: later events"
    : "its end is not proven: events";
  return `It is NOT sealed, so ${unproven}, findings or answers could have been removed from it.\n` +
    "A record is sealed when its VM stops, or by the service when the VM's process is gone.";
}

function describe(bad: Verification["first_bad"]): string {
  const place = bad?.event_id
    ? `event ${bad.event_id}: `
    : bad?.sequence
    ? `event number ${bad.sequence}: `
    : "";
  return place + (bad?.reason ?? "unknown reason");
}
