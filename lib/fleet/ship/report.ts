/**
 * A machine's signed reports: facts a collector cannot see in segments (docs/design/contracts/12-ledger.md
 * §12).
 */
import { z } from "zod";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import { openSigned, REPORT_TYPE, signText } from "../../release/signing/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { Entry } from "../register/mod.ts";
import { Heads, HEX64, SESSION_ID } from "../segment/mod.ts";

const session_id = z.string().regex(SESSION_ID);

/** Most sessions of one report. */
export const REPORT_SESSIONS_MAX = 10_000;

/** Content of a machine's report. */
export const ReportBody = z.discriminatedUnion("kind", [
  /** it lives, and has these sessions */
  z.strictObject({
    kind: z.literal("alive"),
    sbx: z.string().max(64),
    sessions: z.array(z.strictObject({ session_id, heads: Heads, running: z.boolean() })).max(
      REPORT_SESSIONS_MAX,
    ),
    in_force: z.record(z.string().max(64), z.string().max(128)).optional(),
    /** last entry of its register */
    register: z.strictObject({ number: z.int().min(1), hash: z.string().regex(HEX64) }).optional(),
    /** state of the store's log that it saw last */
    witness: z.strictObject({ size: z.int().min(1), root: z.string().regex(HEX64) }).optional(),
  }),
  /** an entry of its register; each is sent once, in the order of their numbers */
  z.strictObject({ kind: z.literal("register"), entry: Entry }),
  /** a session ended; `unflushed`: its process was killed, and up to 50 ms of rows were never written */
  z.strictObject({ kind: z.literal("ended"), session_id, heads: Heads, unflushed: z.boolean() }),
  /** rows behind these heads are gone: the backlog was full */
  z.strictObject({ kind: z.literal("lost"), session_id, heads: Heads, events: z.int().min(0) }),
  /**
   * the collector has rows that this machine lacks: it was restored from a backup, or its ledger was changed
   */
  z.strictObject({ kind: z.literal("fork"), session_id, here: Heads, there: Heads }),
]);
export type ReportBody = z.infer<typeof ReportBody>;

/** Distinguishes reports of one kind: the session, or the number of an entry. */
export function slotOf(body: ReportBody): string {
  if (body.kind === "alive") return "";
  return body.kind === "register" ? String(body.entry.number).padStart(12, "0") : body.session_id;
}

export const Report = z.strictObject({
  schema: z.literal("sbx.fleet-report.v1"),
  machine_id: z.string().regex(HEX64),
  made_at: z.iso.datetime(),
  body: ReportBody,
});
export type Report = z.infer<typeof Report>;

/** Signs a report. @returns its envelope */
export async function makeReport(key: SigningKey, body: ReportBody, now = new Date()): Promise<string> {
  const report: Report = {
    schema: "sbx.fleet-report.v1",
    machine_id: key.publicKey.id,
    made_at: now.toISOString(),
    body,
  };
  return await signText(key, REPORT_TYPE, JSON.stringify(report));
}

/** Opens a report. @throws {SbxError} `fleet.report.invalid` */
export async function openReport(bytes: Uint8Array, key: PublicKey): Promise<Report> {
  try {
    const { type, text, key: signer } = await openSigned(bytes, [key], "the report");
    const report = type === REPORT_TYPE && signer.trusted ? Report.parse(JSON.parse(text)) : undefined;
    if (report?.machine_id === key.id) return report;
  } catch (cause) {
    throw new SbxError("fleet.report.invalid", "the report is refused: it is not one of this machine", {
      cause,
    });
  }
  throw new SbxError("fleet.report.invalid", "the report is refused: it is not one of this machine");
}

/** Reads one's own report. */
export function reportOf(envelope: string): Report {
  const { payload } = JSON.parse(envelope) as { payload: string };
  return Report.parse(JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(payload))));
}

/** Reads a report that was verified before it was kept; `undefined` if it is missing. */
export async function readReport(path: string): Promise<Report | undefined> {
  return await ifFound(Deno.readTextFile(path).then(reportOf));
}
