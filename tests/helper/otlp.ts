/** OTLP by the published protobuf schema, as OpenTelemetry's own library compiled it. */
import { assertEquals } from "@std/assert";
import root from "@opentelemetry/otlp-transformer/build/src/generated/root.js";

interface MessageType {
  fromObject(value: unknown): unknown;
  verify(message: unknown): string | null;
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array): unknown;
  toObject(message: unknown, options: Record<string, unknown>): unknown;
}

const PATH = "opentelemetry.proto.collector";
const REQUESTS: Record<string, MessageType> = {
  "/v1/logs": typeOf("logs.v1.ExportLogsServiceRequest"),
  "/v1/traces": typeOf("trace.v1.ExportTraceServiceRequest"),
};

function typeOf(name: string): MessageType {
  let place = root as unknown as Record<string, unknown>;
  for (const part of `${PATH}.${name}`.split(".")) place = place[part] as Record<string, unknown>;
  return place as unknown as MessageType;
}

/** Ids are hex in OTLP's JSON, and base64 in the JSON of protobuf. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, of]) =>
      /^(trace|span|parentSpan)Id$/.test(key)
        ? [key, Uint8Array.fromHex(of).toBase64()]
        : [key, withBytes(of)]
    ),
  );
}

/**
 * Fails if a request is not all of the schema: a field that it does not have is
 * lost on the way through protobuf.
 */
export function assertOtlp(path: string, request: unknown): void {
  const type = REQUESTS[path];
  const value = withBytes(request);
  const message = type.fromObject(value);
  assertEquals(type.verify(message), null);
  const read = type.decode(type.encode(message).finish());
  assertEquals(type.toObject(read, { longs: String, bytes: String }), value);
}
