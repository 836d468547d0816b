/** The host's report of what a guest's sbx-doctor prints. */
import { assert, assertEquals } from "@std/assert";
import { formatDoctor } from "../../../../cmd/sbx/start/doctor.ts";
import {
  type CheckId,
  CHECKS,
  doctorReport,
  type GuestReport,
  SKEW_MAX_MS,
} from "../../../../lib/support/doctor/mod.ts";
import { GuestReportSchema } from "../../../../lib/support/doctor/schema.ts";

const TIME = { started: 1_000_000, ended: 1_003_000 };

function guest(changes: Partial<GuestReport> = {}): GuestReport {
  const checks = (Object.keys(CHECKS) as CheckId[]).map((id) => ({ id, state: "ok" as const, detail: "" }));
  return { schema: "sbx.guest-doctor.v1", unix_ms: 1_002_000, checks, ...changes };
}

Deno.test("a guest in order: every check once, no advice", () => {
  const report = doctorReport("dev", guest(), TIME);
  assertEquals([report.ok, report.checks.length], [true, Object.keys(CHECKS).length]);
  assert(report.checks.every(({ remedy }) => remedy === undefined));
});

Deno.test("a check that a guest leaves out has failed, unless it is of a client that the image may lack", () => {
  const report = doctorReport("dev", guest({ checks: [] }), TIME);
  const missing = report.checks.map(({ id }) => id);
  assert(!missing.includes("ca-curl") && missing.includes("ca-deno") && missing.includes("clock"));
  assert(!report.ok && report.checks.every(({ state, remedy }) => state === "failed" && remedy));
});

Deno.test("a guest's clock has to be between the start and the end of its program, with a tolerance", () => {
  const stateAt = (unix_ms: number) =>
    doctorReport("dev", guest({ unix_ms }), TIME).checks.find(({ id }) => id === "clock")!;
  assertEquals(stateAt(TIME.started - SKEW_MAX_MS).state, "ok");
  assertEquals(stateAt(TIME.ended + SKEW_MAX_MS).state, "ok");
  assertEquals(stateAt(TIME.started - SKEW_MAX_MS - 1).detail, "2.0 s behind this machine's clock");
  assertEquals(stateAt(TIME.ended + 3_600_000).detail, "3600.0 s ahead of this machine's clock");
});

Deno.test("the report of a guest is strict, and its text moves no cursor", () => {
  const check = { id: "disk", state: "failed", detail: "\x1b[2J\nfull" } as const;
  for (
    const bad of [
      { ...guest(), advice: "run this" },
      guest({ checks: [{ ...check, remedy: "run this" } as never] }),
      guest({ checks: [{ ...check, id: "other" as never }] }),
      guest({ checks: [{ ...check, detail: "x".repeat(301) }] }),
      guest({ checks: Array.from({ length: 100 }, () => check) }),
    ]
  ) assert(!GuestReportSchema.safeParse(bad).success);
  const lines = formatDoctor(doctorReport("dev", guest({ checks: [check] }), TIME)).split("\n");
  assertEquals(lines.filter((line) => line.includes("✗ disk")), ["✗ disk: �[2J full"]);
});
