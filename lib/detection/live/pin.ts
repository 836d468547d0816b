import { SbxError } from "../../base/error/mod.ts";
import type { DetectionIr } from "../ir.ts";

/** What a profile says of a pack: this one, and no other version. */
export interface PackPin {
  id: string;
  version: string;
}

/** As much of a pack as it takes to know whether it may run. */
export type PackIdentity = Pick<DetectionIr, "pack_id" | "pack_version" | "pack_status">;

/**
 * Refuses a pack that was revoked (spec.md, "States and transitions": it must not install or launch).
 *
 * @throws {SbxError} `detection.revoked`
 */
export function requireInstallable({ pack_id, pack_version, pack_status }: PackIdentity): void {
  if (pack_status !== "revoked") return;
  throw new SbxError("detection.revoked", `the detection pack ${pack_id} ${pack_version} is revoked`, {
    hint: "its owner withdrew it: take it out of the profile, or pin a version that is not revoked",
  });
}

/**
 * Refuses packs that are not those a profile pins. It is asked at every launch, with the packs as they are then.
 *
 * @throws {SbxError} `detection.not_found`, `detection.pin_mismatch`, `detection.revoked`
 */
export function requirePinned(pins: readonly PackPin[], loaded: readonly PackIdentity[]): void {
  for (const { id, version } of pins) {
    const pack = loaded.find(({ pack_id }) => pack_id === id);
    if (!pack) {
      const others = loaded.map(({ pack_id }) => pack_id).join(", ");
      throw new SbxError(
        "detection.not_found",
        `the profile pins the detection pack "${id}", which is not there`,
        {
          hint: others ? `there is ${others}; correct the pin or its path` : "correct the pin or its path",
        },
      );
    }
    if (pack.pack_version !== version) {
      throw new SbxError(
        "detection.pin_mismatch",
        `the profile pins ${id} ${version}, and its file is version ${pack.pack_version}`,
        { hint: `pin version ${pack.pack_version} after looking at what changed, or put ${version} back` },
      );
    }
    requireInstallable(pack);
  }
}
