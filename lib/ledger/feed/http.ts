/** Splunk's HTTP Event Collector, and the bulk API of Elastic. */
import { parseJson } from "../../base/json/mod.ts";
import { DeliveryError, HttpReceiver } from "../sink/mod.ts";
import type { FeedSender } from "./feed.ts";
import { asciiJson } from "./json.ts";
import { type FeedRecord, joinBytes } from "./record.ts";

/** Records of a request. */
const BATCH = 200;
/** Index, or data stream, of events where the address names none. */
const INDEX = "sbx-events";

/** Makes the `authorization` header. */
export type Authorize = (url: URL) => Promise<string>;

/** The header with the scheme that the receiver knows a token by; a user's password stays as it is. */
function withScheme(scheme: string, authorize?: Authorize): Authorize | undefined {
  return authorize && (async (url) => (await authorize(url)).replace(/^Bearer /, `${scheme} `));
}

/** Events for Splunk: one object after the other, as its collector takes them. */
export class HecSender implements FeedSender {
  readonly batch = BATCH;
  readonly #receiver: HttpReceiver;

  constructor(address: string, authorize?: Authorize) {
    const url = new URL(address);
    if (url.pathname === "/") url.pathname = "/services/collector/event";
    this.#receiver = new HttpReceiver(url, withScheme("Splunk", authorize));
  }

  async send(records: readonly FeedRecord[], signal: AbortSignal): Promise<number> {
    const lines = records.flatMap(({ time, host, event_type, session_id, sequence, json }, at) => {
      const fields = { event_type, session_id, sequence };
      const event = withMember(
        { time: time / 1000, host, source: "sbx", sourcetype: "sbx:ocsf", fields },
        "event",
        json,
      );
      return at === 0 ? event : ["\n", ...event];
    });
    await this.#receiver.post(joinBytes(lines), {}, signal);
    return 0;
  }
}

/**
 * Events for Elastic: each is created under an id of its own, so that one that is sent again is there once.
 */
export class ElasticSender implements FeedSender {
  readonly batch = BATCH;
  readonly #receiver: HttpReceiver;

  constructor(address: string, authorize?: Authorize) {
    const url = new URL(address);
    if (!/\/_bulk$/.test(url.pathname)) {
      const index = url.pathname.replace(/\/+$/, "");
      url.pathname = `${index || `/${INDEX}`}/_bulk`;
    }
    this.#receiver = new HttpReceiver(url, withScheme("ApiKey", authorize));
  }

  async send(records: readonly FeedRecord[], signal: AbortSignal): Promise<number> {
    const lines = records.flatMap(({ time, session_id, sequence, decision, is_update, json }) => [
      // The end of an event that was sent before is a document of its own.
      `${asciiJson({ create: { _id: idOf(session_id, sequence, is_update) } })}\n`,
      ...withMember(
        { "@timestamp": new Date(time).toISOString(), sbx: { session_id, sequence, decision } },
        "ocsf",
        json,
      ),
      "\n",
    ]);
    const headers = { "content-type": "application/x-ndjson" };
    return countRefused(await this.#receiver.post(joinBytes(lines), headers, signal), records.length);
  }
}

/** JSON of an object that is not empty, and one member more that is JSON already. */
function withMember(
  object: Record<string, unknown>,
  name: string,
  json: Uint8Array,
): (string | Uint8Array)[] {
  return [`${asciiJson(object).slice(0, -1)},"${name}":`, json, "}"];
}

function idOf(session: string, sequence: number, isUpdate: boolean): string {
  return `${session}:${sequence}${isUpdate ? ":end" : ""}`;
}

/** @throws {DeliveryError} not an answer of the bulk API, or some of the records may be taken later */
function countRefused(response: string, count: number): number {
  let answer: { errors?: unknown; items?: { create?: { status?: unknown } }[] };
  try {
    answer = parseJson(response) as typeof answer;
  } catch {
    // A long answer is cut; its beginning says whether there are errors.
    if (/^\s*\{[^[]*"errors"\s*:\s*false/.test(response)) return 0;
    throw new DeliveryError("the answer is not from Elastic's bulk API", count > 1);
  }
  if (answer?.errors === false) return 0;
  if (answer?.errors !== true || !Array.isArray(answer.items)) {
    throw new DeliveryError("the answer is not from Elastic's bulk API");
  }
  const states = answer.items.map((item) => Number(item?.create?.status));
  if (states.some((status) => status === 429 || status >= 500)) {
    const isFault = !states.some((status) => status === 429 || status === 503);
    throw new DeliveryError(
      "it took some of the events and wants the others later",
      false,
      undefined,
      isFault,
    );
  }
  // 409: it has that event already.
  return states.filter((status) => status !== 409 && !(status >= 200 && status < 300)).length;
}
