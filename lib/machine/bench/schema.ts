/** Report of a guest's sbx-bench: bytes of a guest, so strict and bounded. */
import { z } from "zod";
import { MEASURE_NAMES } from "./report.ts";

/** Longest time that a measurement can have taken, in `ms`. */
const MS_MAX = 600_000;

export const GuestBenchSchema = z.strictObject({
  schema: z.literal("sbx.guest-bench.v1"),
  measures: z.partialRecord(z.enum(MEASURE_NAMES), z.number().positive().max(MS_MAX)),
});
