/**
 * Corp's switch for a person's rules beside built-in profiles
 * (docs/design/contracts/03-settings.md §3, "Corp limits").
 */
import { SbxError } from "../../base/error/mod.ts";

/** Part of corp's state that the switch is in. */
interface OverlayState {
  status: string;
  config?: { file: { corp: { limits?: { overlays?: boolean } } } };
}

/**
 * True where the rules that a person keeps for built-in profiles are in force; false
 * also where corp cannot be read.
 */
export function allowsOverlays(state: OverlayState): boolean {
  if (state.status === "absent") return true;
  return state.config !== undefined && state.config.file.corp.limits?.overlays !== false;
}

/** @throws {SbxError} `policy.blocked`: corp allows no rules of a person for the built-in profile */
export function requireOverlays(state: OverlayState, profileId: string): void {
  if (allowsOverlays(state)) return;
  throw new SbxError(
    "policy.blocked",
    `corp allows no rules of your own for the built-in profile "${profileId}", so no answer is for always`,
    { hint: "answer without --always, for the session or a time; sbx corp info shows corp's limits" },
  );
}
