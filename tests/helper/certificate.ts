/** Certificates for tests: a home with a key, and a record with every kind of row. */
import { join } from "node:path";
import { CERTIFICATE_TYPE, ensureSigningKey, signSeal, signText } from "../../lib/release/signing/mod.ts";
import { makeCertificate } from "../../lib/lab/certify/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import type { PublicKey, SigningKey } from "../../lib/release/mod.ts";
import { eventCommon } from "./event.ts";
import { execEvent, requestEvent, SESSION } from "./ledger.ts";

export const NO_KEYRING = { get: () => Promise.resolve(undefined), set: () => Promise.resolve() };

export interface Certified {
  home: { dir: string };
  path: string;
  key: SigningKey;
  trusted: PublicKey[];
  /** bytes of the certificate */
  bytes: Uint8Array;
  text: string;
}

/** Writes more of a session. */
export async function writeMore(home: { dir: string }, path: string): Promise<void> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION, sign: (text) => signSeal(home, text) });
  const http = requestEvent("http.request");
  ledger.append({ event: http, decision: { decision: "allow" } });
  ledger.end({ event_id: http.common.event_id, response: { status: 200 } });
  ledger.append({ event: requestEvent("http.request"), decision: { decision: "block", rule: { id: "r" } } });
  ledger.append({ event: requestEvent("dns.query"), decision: { decision: "allow" } });
  const exec = execEvent();
  const finding = {
    finding_id: "f",
    event_id: exec.common.event_id,
    rule_id: "r",
    severity: "high",
    pack_id: "p",
  };
  ledger.append({ event: exec, decision: { decision: "allow" }, findings: [finding] });
  ledger.append({ event: credentialEvent() });
  ledger.append({ event: gapEvent() });
  ledger.add({
    rows: [
      { table: "statements", record: { ...BOOT, statement_id: crypto.randomUUID() } },
      { table: "statements", record: { ...CONTRACT, statement_id: crypto.randomUUID() } },
    ],
  });
}

const BOOT = {
  kind: "boot",
  accelerator: "tcg",
  started: "cold",
  image: { version: "1", hashes: { vmlinuz: "a".repeat(64) } },
};
const CONTRACT = { kind: "contract", profile_id: "code", profile_revision: "1.0.0" };

function credentialEvent(): Event {
  return {
    schema_version: 1,
    common: eventCommon("credential.substitution"),
    credential: {
      substitution: {
        provider: "openai",
        credential_ref: "credential:blake3:" + "b".repeat(64),
        host: "api.openai.com",
        location: "header",
        outcome: "injected",
      },
    },
  } as Event;
}

function gapEvent(): Event {
  const event = execEvent();
  event.common = {
    ...eventCommon("process.exit"),
    labels: { activity: "gap", why: "sbx-activity has ended" },
  };
  return event;
}

/** Runs a test with a certified record. */
export async function withCertificate(run: (certified: Certified) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "session.db");
  try {
    const home = { dir };
    const key = await ensureSigningKey(home, NO_KEYRING);
    await writeMore(home, path);
    const certificate = await makeCertificate(path, {
      session_id: SESSION,
      seal: "signed",
      user: "someone",
      device: "host",
    });
    const text = await signText(key, CERTIFICATE_TYPE, JSON.stringify(certificate));
    await run({ home, path, key, trusted: [key.publicKey], text, bytes: new TextEncoder().encode(text) });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}
