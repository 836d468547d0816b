import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "../../api/client.ts";
import { api, type AskView } from "../../api/routes.ts";
import { EventFields } from "../../part/fields.tsx";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** `ms` between two tries: an ask is told at once, and its event is in the record a moment later. */
const RETRY_MS = 200;
const TRIES_MAX = 10;

/** The event that waits, field by field; secrets in it are refs. */
export function AskRequest({ ask }: { ask: AskView }) {
  const event = useSignal<Record<string, unknown> | undefined>(undefined);
  useEffect(() => {
    act(async () => event.value = await readEvent(ask));
  }, [ask.ask_id]);
  return event.value ? <EventFields value={event.value} /> : <p>{text.common.loading}</p>;
}

async function readEvent(ask: AskView): Promise<Record<string, unknown>> {
  for (let tries = 1;; tries++) {
    try {
      return (await api.why(ask.session_id, ask.event_id)).event;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404 || tries === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
