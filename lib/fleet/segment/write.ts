/**
 * Makes the segments of a record that a machine sends to its fleet. Bodies stay on the machine, unless corp
 * allows their family and host (docs/design/contracts/12-ledger.md §12).
 */
import { Buffer } from "node:buffer";
import { constants, zstdCompressSync } from "node:zlib";
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { LedgerRows } from "../../ledger/read/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { SEGMENT_TYPE, signText } from "../../release/signing/mod.ts";
import { formatLine, type Line, parseLine, type SegmentHeader } from "./schema.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { isObject } from "../../base/object/mod.ts";

/** Permission for bodies of one family to leave the machine. */
export interface BodyGrant {
  family: string;
  /** hosts, or `*.` and a domain; absent: every host */
  hosts?: readonly string[];
}

/** Options of a session's segments. */
export interface SegmentTerms {
  key: SigningKey;
  session_id: string;
  /** default: no body leaves the machine */
  grants?: readonly BodyGrant[];
  /** events of earlier segments whose outcomes may still come, by id; each call adds its own */
  origins?: Map<string, { family: string; host?: string }>;
}

/** Most events remembered until their outcomes come. */
const ORIGINS_MAX = 10_000;

/** Level 1 takes half the time of level 2, and for text as repetitive as events its output is smaller. */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/**
 * Makes a segment of rows: the envelope of its header on the first line, then its rows, compressed.
 *
 * @throws {SbxError} `ledger.invalid`: a row with contents is damaged
 */
export async function makeSegment(
  rows: LedgerRows,
  { key, session_id, grants = [], origins = new Map() }: SegmentTerms,
): Promise<Uint8Array<ArrayBuffer>> {
  const withhold = new Withholding(grants, origins);
  const body = joinBytes([
    ...withhold.parts(rows.events),
    ...withhold.parts(rows.outcomes),
    // Findings, answers and statements have no contents of requests.
    rows.journal,
  ]);
  const packed = new Uint8Array(zstdCompressSync(body, COMPRESSION));
  const header: SegmentHeader = {
    schema: "sbx.ledger-segment.v1",
    machine_id: key.publicKey.id,
    session_id,
    made_at: new Date().toISOString(),
    bound_after: rows.bound_after,
    from: rows.from,
    to: rows.to,
    body: { hash: blake3(packed), bytes: body.length },
  };
  const envelope = await signText(key, SEGMENT_TYPE, JSON.stringify(header));
  return joinBytes([new TextEncoder().encode(envelope), packed]);
}

/** Removes contents from lines. Lines without any are not parsed, unless a grant exists. */
class Withholding {
  constructor(
    readonly grants: readonly BodyGrant[],
    readonly origins: Map<string, { family: string; host?: string }>,
  ) {}

  /** @returns the lines, with replacements for the ones with contents */
  parts(lines: Uint8Array): Uint8Array[] {
    const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.length);
    // Latin-1: the place of a character is that of its byte.
    const text = bytes.toString("latin1");
    const isGranted = this.grants.length > 0;
    const parts: Uint8Array[] = [];
    let sent = 0;
    for (let at = 0; at < text.length;) {
      const found = isGranted ? at : findContents(text, at);
      if (found < 0) break;
      const start = text.lastIndexOf("\n", found - 1) + 1;
      const end = text.indexOf("\n", found);
      const line = bytes.toString("utf8", start, end);
      const changed = this.#without(line);
      if (changed !== line) {
        parts.push(lines.subarray(sent, start), new TextEncoder().encode(changed));
        sent = end;
      }
      at = end + 1;
    }
    parts.push(lines.subarray(sent));
    return parts;
  }

  #without(text: string): string {
    const line = parseLine(text);
    if (!line || line.kind === "journal" || line.kind === "erased") throw damaged("a row is malformed");
    let sent: string;
    try {
      sent = line.kind === "event" ? this.#event(line.text) : this.#outcome(line.text);
    } catch (cause) {
      throw damaged("a row is not JSON", cause);
    }
    return sent === line.text ? text : formatLine({ ...line, text: sent, whole: false } as Line);
  }

  #event(text: string): string {
    if (this.grants.length > 0) this.#remember(text);
    return withholdFromEvent(text, this.grants);
  }

  #outcome(text: string): string {
    const id = this.grants.length > 0 ? /"event_id":"([^"\\]*)"/.exec(text)?.[1] : undefined;
    return withholdFromOutcome(text, id === undefined ? undefined : this.origins.get(id), this.grants);
  }

  #remember(text: string): void {
    const { event_id, ...origin } = originOf(text);
    this.origins.set(event_id, origin);
    if (this.origins.size > ORIGINS_MAX) this.origins.delete(this.origins.keys().next().value!);
  }
}

type Json = Record<string, unknown>;

/** Fields with contents of requests and responses, by family; a body keeps its size and its type. */
const CONTENTS: Record<string, readonly string[]> = {
  http: ["request.body", "response.body", "response.messages"],
  model: ["request.body", "response.tool_calls"],
  mcp: ["request.arguments", "response.content"],
};
/**
 * Fields that hold contents, in canonical JSON. Rows without any are sent as stored: parsing each one costs
 * more than all other work of shipping.
 */
const CONTENT =
  /"(?:tool_calls|arguments|content|messages)":|"body":(?!\{"state":"missing","truncated":false\})/;

/**
 * Searches lines for one with contents.
 *
 * @param text also bytes as Latin-1
 * @returns its place; -1: not found
 */
function findContents(text: string, from = 0): number {
  const pattern = new RegExp(CONTENT, "g");
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** @returns the text of an event without its bodies; unchanged if it has none or they may leave */
function withholdFromEvent(text: string, grants: readonly BodyGrant[]): string {
  if (!CONTENT.test(text)) return text;
  const event = JSON.parse(text) as Json;
  const family = familyOf(event);
  const part = event[family];
  if (!isObject(part) || isGranted(family, hostOf(part as Json), grants)) return text;
  return withhold(part as Json, family, "") ? canonicalJson(event) : text;
}

/** @param event the event of the outcome; `undefined`: unknown, so that no body leaves */
function withholdFromOutcome(
  text: string,
  event: { family: string; host?: string } | undefined,
  grants: readonly BodyGrant[],
): string {
  if (!CONTENT.test(text)) return text;
  if (event && isGranted(event.family, event.host, grants)) return text;
  const outcome = JSON.parse(text) as Json;
  if (!isObject(outcome.response)) return text;
  // Without the event the family is unknown: contents of all of them are taken out.
  let changed = false;
  for (const family of event ? [event.family] : Object.keys(CONTENTS)) {
    changed = withhold(outcome, family, "response.") || changed;
  }
  return changed ? canonicalJson(outcome) : text;
}

/** Family and host of an event, by which grants apply to its outcome. */
function originOf(text: string): { event_id: string; family: string; host?: string } {
  const event = JSON.parse(text) as Json;
  const family = familyOf(event);
  const host = isObject(event[family]) ? hostOf(event[family] as Json) : undefined;
  return {
    event_id: String((event.common as Json | undefined)?.event_id),
    family,
    ...(host !== undefined && { host }),
  };
}

function familyOf(event: Json): string {
  return String((event.common as Json | undefined)?.event_type ?? "").split(".")[0];
}

function hostOf(part: Json): string | undefined {
  const request = part.request as Json | undefined;
  const host = request?.host ?? request?.server_name ?? request?.provider;
  return typeof host === "string" ? host : undefined;
}

function isGranted(family: string, host: string | undefined, grants: readonly BodyGrant[]): boolean {
  return grants.some((grant) =>
    grant.family === family && (grant.hosts === undefined || grant.hosts.some((name) => covers(name, host)))
  );
}

function covers(name: string, host = ""): boolean {
  return name.startsWith("*.") ? host.endsWith(name.slice(1)) : name === host;
}

/** Removes the contents of a family from an object. @returns whether there were any */
function withhold(part: Json, family: string, prefix: string): boolean {
  let changed = false;
  for (const path of CONTENTS[family] ?? []) {
    if (!path.startsWith(prefix)) continue;
    const [side, name] = path.split(".");
    const holder = part[side];
    if (!isObject(holder) || !Object.hasOwn(holder, name)) continue;
    const before = (holder as Json)[name];
    if (isObject(before) && (before as Json).state === "missing") continue;
    (holder as Json)[name] = replacementOf(name, before);
    changed = true;
  }
  return changed;
}

/** Replacement of withheld contents, in the shape of the field. */
function replacementOf(name: string, value: unknown): unknown {
  if (name !== "body") return name === "arguments" ? {} : [];
  const { content_type, size, truncated } = isObject(value) ? value as Json : {};
  return {
    state: "redacted",
    redaction_reason: "fleet.withheld",
    ...(content_type !== undefined && { content_type }),
    ...(size !== undefined && { size }),
    ...(truncated !== undefined && { truncated }),
  };
}

function damaged(problem: string, cause?: unknown): SbxError {
  return new SbxError("ledger.invalid", `the ledger is damaged: ${problem}; none of its rows are sent`, {
    cause,
    hint: "sbx verify NAME names the first bad event",
  });
}
