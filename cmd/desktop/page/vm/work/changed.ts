/**
 * Notices that the files of a VM change, by the events that the page follows anyway:
 * nothing is asked for until then.
 */
import { onMessage } from "../../../store/live.ts";

/** `ms` without a further change before the work is read: a build writes many files. */
const QUIET_MS = 1500;
/** `ms` after which it is read although files go on changing. */
const LONGEST_MS = 10_000;

/** Git's own files: a look at the work may write them, and would lead to the next look. */
const GIT = /\/\.git(\/|$)/;

/** Operations that leave the VM's files as they are. */
const STILL = ["read", "export"];

/** Calls `listener` after the files of a VM changed. @returns a function that ends that */
export function onChange(vm: string, listener: () => void): () => void {
  let timer = 0;
  let first: number | undefined;
  const fire = () => {
    first = undefined;
    listener();
  };
  const stop = onMessage(({ type, payload }) => {
    if (type !== "security-event" || payload.event.common.session_id !== vm) return;
    const { activity } = payload.event.file ?? {};
    if (!activity || STILL.includes(activity.operation) || GIT.test(activity.path)) return;
    first ??= performance.now();
    clearTimeout(timer);
    const left = first + LONGEST_MS - performance.now();
    timer = setTimeout(fire, Math.max(0, Math.min(QUIET_MS, left))) as unknown as number;
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}
