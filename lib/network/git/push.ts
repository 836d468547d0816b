/** The commands of a push, before its pack (gitprotocol-pack, "Reference Update Request"). */
import { joinBytes } from "../../base/bytes/mod.ts";

/** One ref that a push changes. */
export interface GitUpdate {
  kind: "create" | "update" | "delete";
  /** object id after the push; zeros for a deleted ref */
  new: string;
  /** object id that the client saw; zeros for a new ref */
  old: string;
  ref: string;
}

/** Contents of a push request; with a `fault`, as much as could be read. */
export interface PushReading {
  updates: GitUpdate[];
  /** features of the client, such as `report-status` */
  features: Set<string>;
  /** why servers may read the push in another way, as a noun phrase */
  fault?: string;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
const COMMAND = /^([0-9a-fA-F]{40}|[0-9a-fA-F]{64}) ([0-9a-fA-F]{40}|[0-9a-fA-F]{64}) (.+)$/s;
const SHALLOW = /^shallow (?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$/;
const CERT = "push-cert";
const CERT_END = "push-cert-end\n";
/** First line of a signature; git takes the last one in a certificate. */
const SIGNATURE = /^-----BEGIN /;

/** Reads the commands of a push. @param bytes its beginning, without content encoding */
export function readPush(bytes: Uint8Array): PushReading {
  const reading: PushReading = { updates: [], features: new Set() };
  try {
    readCommands(bytes, reading);
    if (reading.updates.length > UPDATES_MAX) throw new PushFault(`more than ${UPDATES_MAX} refs`);
    return reading;
  } catch (error) {
    if (!(error instanceof PushFault)) throw error;
    return { ...reading, fault: error.message };
  }
}

/** As `read_head_info` of git's receive-pack does. */
function readCommands(bytes: Uint8Array, { updates, features }: PushReading): void {
  let certificate: string | undefined;
  for (const packet of readPackets(bytes)) {
    if (packet === "flush") {
      if (certificate !== undefined) throw new PushFault("a certificate without an end");
      return;
    }
    const text = textOf(packet);
    if (certificate !== undefined) {
      if (text.includes("\0")) throw new PushFault("a certificate with NUL");
      if (text === CERT_END) {
        updates.push(...certifiedUpdates(certificate));
        certificate = undefined;
      } else certificate += text;
      continue;
    }
    const [line, ...rest] = chomp(text).split("\0");
    for (const feature of rest.join(" ").split(/[ \n]/)) if (feature) features.add(feature);
    if (line === CERT) certificate = "";
    else if (!SHALLOW.test(line)) updates.push(updateOf(line));
    if (updates.length > UPDATES_MAX) return;
  }
}

/** Updates that a signed certificate names between its head and its signature. */
function certifiedUpdates(certificate: string): GitUpdate[] {
  const head = certificate.indexOf("\n\n");
  if (head < 0) throw new PushFault("a certificate without commands");
  const lines = certificate.slice(head + 2).split("\n").filter((line) => line !== "");
  const signature = lines.findLastIndex((line) => SIGNATURE.test(line));
  if (lines.slice(signature < 0 ? lines.length : signature).some((line) => COMMAND.test(line))) {
    throw new PushFault("a command in the signature of a certificate");
  }
  return lines.slice(0, signature < 0 ? lines.length : signature).map(updateOf);
}

function updateOf(line: string): GitUpdate {
  const [, old, after, ref] = COMMAND.exec(line) ?? [];
  if (ref === undefined || old.length !== after.length) throw new PushFault("a command of another form");
  if (!isRef(ref)) throw new PushFault("a ref whose name git does not allow");
  const kind = isZero(after) ? "delete" : isZero(old) ? "create" : "update";
  return { kind, new: after.toLowerCase(), old: old.toLowerCase(), ref };
}

function isZero(id: string): boolean {
  return /^0+$/.test(id);
}

/** True for a name that git-check-ref-format allows; servers disagree on the meaning of others. */
function isRef(name: string): boolean {
  // deno-lint-ignore no-control-regex
  if (!name.startsWith("refs/") || /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\.$/.test(name)) return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
}

function textOf(packet: Uint8Array): string {
  try {
    return utf8.decode(packet);
  } catch {
    throw new PushFault("a command that is not UTF-8");
  }
}

function chomp(text: string): string {
  return text.endsWith("\n") ? text.slice(0, -1) : text;
}

// Packets of git's protocol (gitprotocol-common): four hex digits of length, then the bytes.

/** A packet's bytes; `flush` for the packet that ends a list. */
type Packet = Uint8Array | "flush";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Reads the packets of a list. @throws {PushFault} */
function* readPackets(bytes: Uint8Array): Generator<Packet> {
  for (let at = 0;;) {
    if (at + 4 > bytes.length) throw new PushFault("its commands have no end");
    const digits = decoder.decode(bytes.subarray(at, at + 4));
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new PushFault("a packet without a length");
    const length = parseInt(digits, 16);
    if (length === 0) {
      at += 4;
      yield "flush";
      continue;
    }
    if (length < 5 || length > PACKET_MAX) throw new PushFault(`a packet of length ${length}`);
    if (at + length > bytes.length) throw new PushFault("its commands have no end");
    yield bytes.subarray(at + 4, at + length);
    at += length;
  }
}

/** A push that cannot be read as every server reads it; the message is a noun phrase. */
class PushFault extends Error {}

/** Formats a packet. @param content text as UTF-8, or bytes */
export function formatPacket(content: string | Uint8Array): Uint8Array {
  const bytes = typeof content === "string" ? encoder.encode(content) : content;
  return joinBytes([encoder.encode((bytes.length + 4).toString(16).padStart(4, "0")), bytes]);
}

export const FLUSH: Uint8Array = encoder.encode("0000");

// Limits on reading git's requests (docs/design/contracts/05-policy.md §5, "Git").

/** Longest commands of one push, in `bytes`: everything before its pack. */
export const COMMANDS_MAX = 512 * 1024;
/** Most updates of one push; a mirror of more refs is pushed in parts. */
const UPDATES_MAX = 1000;
/** Longest packet with its length, in `bytes` (git's LARGE_PACKET_MAX). */
export const PACKET_MAX = 65_520;
/** Longest packet of a client that knows `side-band` only, in `bytes`. */
export const SMALL_BAND_MAX = 1000;
