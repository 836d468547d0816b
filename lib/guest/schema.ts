/** What may come out of a guest; anything else ends the connection. The guest's bytes are hostile. */
import { z } from "zod";

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
