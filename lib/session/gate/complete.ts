import { type Event, newEventId } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { GateOptions } from "./options.ts";

/** Adds to a draft who, when and where; its place in the ledger follows when it is appended. */
export function completeDraft(
  { common, bill: _, ...family }: Draft,
  { id, profile_id, user_id, labels: ofSession }: GateOptions["session"],
  profile_revision: string,
): Event {
  const { event_type, source_engine, enforceability, actor, labels, process, trace_id } = common;
  // In the order of canonical JSON, which then has nothing to sort.
  return {
    common: {
      actor: actor ?? "vm",
      enforceability: enforceability ?? "inline_blockable",
      event_id: newEventId(),
      event_type,
      labels: { ...labels, ...ofSession },
      ...(process && { process }),
      profile_id,
      profile_revision,
      sequence: 0,
      session_id: id,
      source_engine,
      timestamp_unix_ms: Date.now(),
      ...(trace_id !== undefined && { trace_id }),
      ...(user_id !== undefined && { user_id }),
      vm_id: id,
    },
    ...family,
    schema_version: 1,
  };
}
