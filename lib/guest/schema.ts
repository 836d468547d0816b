/** What may come out of a guest; anything else ends the connection. The guest's bytes are hostile. */
import { z } from "zod";
import { parseAddress } from "../base/address/address.ts";

const id = z.int().nonnegative();

export const GuestMessage = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Ready"), version: z.string().max(64) }),
  z.strictObject({
    t: z.literal("BootReady"),
    stages: z.array(z.strictObject({ name: z.string().max(64), ms: z.number() })).max(32),
  }),
  z.strictObject({ t: z.literal("BootFailed"), error: z.string().max(4096) }),
  z.strictObject({
    t: z.literal("ExecExited"),
    id,
    exit_code: z.int().min(0).max(255),
    truncated: z.boolean(),
    duration_ms: z.number(),
    error: z.string().max(4096).optional(),
  }),
  z.strictObject({ t: z.literal("PtyExited"), id, exit_code: z.int().min(0).max(255) }),
  z.strictObject({ t: z.literal("FileVisible"), id, visible: z.boolean() }),
]);

export const ExecStarted = z.strictObject({ t: z.literal("ExecStarted"), id });
export const Output = z.union([
  z.strictObject({ stream: z.enum(["stdout", "stderr"]), data: z.string() }),
  z.strictObject({ stream: z.literal("stdout"), end: z.literal(true) }),
]);
export const Attach = z.strictObject({ t: z.literal("Attach"), id });

const port = z.int().min(1).max(65_535);
const processName = z.string().max(64);
const address = z.string().max(45).regex(/^[0-9a-fA-F:.]+$/);

export const Open = z.strictObject({
  t: z.literal("Open"),
  host_ip: address,
  port,
  process_name: processName,
  pid: id,
  stream: id,
});
export const End = z.strictObject({ t: z.literal("End"), stream: id, bytes: id });
export const Refused = z.strictObject({
  t: z.literal("Refused"),
  protocol: z.int().min(0).max(255),
  host_ip: address.refine((text) => parseAddress(text) !== undefined),
  port: z.int().min(0).max(65_535).optional(),
  process_name: processName,
  pid: id,
});
/** What comes on the connection for notes. */
export const Note = z.discriminatedUnion("t", [End, Refused]);
export const DnsFrame = z.strictObject({
  id,
  raw: z.base64().max(88_000).describe("64 KB at most"),
  proto: z.enum(["udp", "tcp"]),
  process_name: processName,
});
