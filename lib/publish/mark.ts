import { SbxError } from "../base/error/mod.ts";
import { rankOf, type Status } from "../release/mod.ts";
import { UNSIGNED, type Workspace } from "./workspace.ts";

/**
 * Moves the status of a release forward. The record must be signed again.
 *
 * @throws {SbxError} `release.not_found`, `release.status.invalid`: a status never moves back
 */
export async function markRelease(
  workspace: Workspace,
  channel: string,
  version: string,
  status: Status,
): Promise<void> {
  const record = workspace.record(channel, version);
  if (rankOf(status) <= rankOf(record.status)) {
    throw new SbxError(
      "release.status.invalid",
      `release ${version} of channel "${channel}" is ${record.status}, and cannot become ${status}`,
      {
        hint:
          "a status only moves forward: current, supported, deprecated, revoked; publish a new version instead",
      },
    );
  }
  record.status = status;
  record.digest.hmac = UNSIGNED;
  await workspace.writeIndex();
}
