/** A test event for a sink, so that an administrator can see it arrive. */
import type { LedgerEvent } from "../read/mod.ts";
import { DeliveryError } from "../sink/mod.ts";
import { encodeRecord, type FeedRecord, feedRecordOf } from "./record.ts";
import type { FeedSink } from "./schema.ts";

/** Answer of a sink to a test event. */
export interface SinkTrial {
  id: string;
  form: string;
  url: string;
  ok: boolean;
  took_ms: number;
  session_id: string;
  error?: string;
}

/** Sends an event of a made-up session, redacted like any other. Filters of the sink do not apply. */
export async function trySink(
  sink: FeedSink,
  send: (records: readonly FeedRecord[]) => Promise<number>,
): Promise<SinkTrial> {
  const { id, form, url } = sink;
  const event = testEvent();
  const { session_id } = event.common;
  const began = performance.now();
  const answer = (error?: string): SinkTrial => {
    const took_ms = Math.round(performance.now() - began);
    return {
      id,
      form,
      url,
      ok: error === undefined,
      took_ms,
      session_id,
      ...(error !== undefined && { error }),
    };
  };
  try {
    const refused = await send([encodeRecord(feedRecordOf(event, sink))]);
    return answer(refused > 0 ? "it answered that it refused the event" : undefined);
  } catch (error) {
    if (error instanceof DeliveryError) return answer(error.message);
    throw error;
  }
}

/** The end of a program: as OpenTelemetry it is a log record and a span. */
function testEvent(): LedgerEvent {
  const id = crypto.randomUUID();
  return {
    schema_version: 1,
    common: {
      event_id: id.replaceAll("-", "").slice(0, 12),
      event_type: "process.exit",
      session_id: `sbx-test-${id.slice(0, 8)}`,
      vm_id: "sbx-test",
      profile_id: "sbx-test",
      profile_revision: "0",
      timestamp_unix_ms: Date.now(),
      sequence: 1,
      source_engine: "process",
      enforceability: "observe_only",
      actor: "host",
      labels: {},
    },
    process: {
      activity: {
        operation: "exit",
        executable: "sbx",
        command: "sbx corp try",
        argv: ["sbx", "corp", "try"],
        cwd: "/",
        exit_code: 0,
      },
    },
  };
}
