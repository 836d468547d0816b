/** Refusals that git's client shows to its user. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { FLUSH, formatPacket, PACKET_MAX, SMALL_BAND_MAX } from "./packet.ts";
import type { PushReading } from "./push.ts";
import type { GitRequest } from "./request.ts";

/** A response with status 200: git's client reads packets of no other. */
export interface GitReply {
  type: string;
  body: Uint8Array;
}

/** Bands of a multiplexed answer (gitprotocol-pack, "Packfile Data"). */
const BAND = { data: 1, message: 2, error: 3 };

/**
 * Formats a refusal.
 *
 * @param line reason, without control characters
 * @param push its updates are refused one by one
 */
export function formatRefusal({ service, step }: GitRequest, line: string, push?: PushReading): GitReply {
  if (step === "list") {
    const body = joinBytes([formatPacket(`# service=${service}\n`), FLUSH, formatError(line), FLUSH]);
    return { type: `application/x-${service}-advertisement`, body };
  }
  return {
    type: `application/x-${service}-result`,
    body: push ? formatPushRefusal(push, line) : formatError(line),
  };
}

function formatPushRefusal({ updates, features, fault }: PushReading, line: string): Uint8Array {
  const bandMax = features.has("side-band-64k") ? PACKET_MAX : features.has("side-band") ? SMALL_BAND_MAX : 0;
  const isReported = features.has("report-status") || features.has("report-status-v2");
  if (fault !== undefined || !isReported) {
    return bandMax ? joinBytes([...bands(BAND.error, encode(line), bandMax), FLUSH]) : formatError(line);
  }
  const report = joinBytes([
    formatPacket("unpack ok\n"),
    ...updates.map(({ ref }) => formatPacket(`ng ${ref} blocked by policy\n`)),
    FLUSH,
  ]);
  if (!bandMax) return report;
  return joinBytes([
    ...bands(BAND.message, encode(`${line}\n`), bandMax),
    ...bands(BAND.data, report, bandMax),
    FLUSH,
  ]);
}

function bands(band: number, bytes: Uint8Array, max: number): Uint8Array[] {
  const packets: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += max - 5) {
    packets.push(formatPacket(joinBytes([Uint8Array.of(band), bytes.subarray(at, at + max - 5)])));
  }
  return packets;
}

function formatError(line: string): Uint8Array {
  return formatPacket(`ERR ${line}`);
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
