/** Report of a guest's sbx-doctor: bytes of a guest, so strict and bounded. */
import { z } from "zod";
import { CHECK_IDS, DETAIL_MAX } from "./checks.ts";

export const GuestReportSchema = z.strictObject({
  schema: z.literal("sbx.guest-doctor.v1"),
  unix_ms: z.int().min(0),
  checks: z.array(z.strictObject({
    id: z.enum(CHECK_IDS),
    state: z.enum(["ok", "failed", "skipped"]),
    detail: z.string().max(DETAIL_MAX),
  })).max(CHECK_IDS.length),
});
