import { SbxError } from "../../base/error/mod.ts";
import { fairDelay } from "../../base/time/mod.ts";

/** A probe: the part it checks, and its issues, one line each. */
export type Probe = [what: string, look: () => Promise<string[]>];

/** Waits for a probe of the service's health, but no longer than `ms`. @throws {SbxError} `status.timeout` */
export function withDeadline<T>(probe: Promise<T>, ms: number): Promise<T> {
  const late = fairDelay(ms).then(() => {
    throw new SbxError("status.timeout", `no answer within ${ms / 1000} s`);
  });
  return Promise.race([probe, late]);
}
