/** Diagnosis of a running guest: its sbx-doctor's report, read by the host. Guests bundle it: no zod. */
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
