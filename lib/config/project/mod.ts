/**
 * Project files: `.sbx.toml` at the top of a folder, which may only narrow without a person
 * (docs/design/contracts/04-profiles.md §4).
 */
export {
  approvalOf,
  approvalsIn,
  approve,
  type Approved,
  changesOf,
  forget,
  isApproved,
} from "./approval.ts";
export { type Project, type ProjectPackages, readProject, widenings } from "./read.ts";
