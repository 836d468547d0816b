import { SbxError } from "../base/error/mod.ts";
import { rejectAfter } from "../base/time/mod.ts";

/** Waits for a probe of the service's health, but no longer than `ms`. @throws {SbxError} `status.timeout` */
export function withDeadline<T>(probe: Promise<T>, ms: number): Promise<T> {
  return Promise.race([
    probe,
    rejectAfter(ms, () => new SbxError("status.timeout", `no answer within ${ms / 1000} s`)),
  ]);
}
