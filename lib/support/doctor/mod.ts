/** Diagnosis of a running guest: what its sbx-doctor reports, and what the host makes of it. Loads no zod: guests bundle it. */
export {
  type CheckId,
  checkLine,
  type CheckResult,
  CHECKS,
  type CheckState,
  DETAIL_MAX,
  type GuestReport,
} from "./checks.ts";
export { type DoctorCheck, type DoctorReport, doctorReport, SKEW_MAX_MS } from "./report.ts";
