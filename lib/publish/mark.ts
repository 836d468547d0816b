import { SbxError } from "../base/error/mod.ts";
import { rankOf, type Stage, type Status } from "../release/mod.ts";
import { Stage as StageShape } from "../release/schema.ts";
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

/**
 * Says which machines a release is for. The record must be signed again. Machines that have the release keep it when its
 * stage shrinks: a release is taken back by revoking it.
 *
 * @param stage absent: all machines
 * @throws {SbxError} `release.not_found`, `release.stage.invalid`
 */
export async function stageRelease(
  workspace: Workspace,
  channel: string,
  version: string,
  stage: Stage | undefined,
): Promise<void> {
  const record = workspace.record(channel, version);
  const parsed = StageShape.optional().safeParse(stage);
  if (!parsed.success) {
    throw new SbxError("release.stage.invalid", `the stage is refused: ${parsed.error.issues[0].message}`, {
      hint: "give a percentage from 0 to 100 and labels such as canary",
    });
  }
  if (parsed.data) record.stage = parsed.data;
  else delete record.stage;
  record.digest.hmac = UNSIGNED;
  await workspace.writeIndex();
}
