/**
 * Model calls on WebSockets: the Responses API and the Realtime API of OpenAI
 * (docs/design/contracts/05-policy.md §5, "Models").
 */
import { providerOf } from "../../event/mod.ts";
import type { ModelSocket, SocketRequest, SocketResponse } from "../interface/mod.ts";
import type { Api, ModelCall, ModelRequest } from "./api.ts";
import { CallReader } from "./call.ts";
import { countOf, findAmbiguity, type Json, nameOf, objectOf, textOf } from "./json.ts";
import { LINE_MAX, REQUEST_MAX } from "./limit.ts";
import { openaiRealtime, openaiResponses } from "./openai.ts";
import type { Prices } from "./price.ts";
import { modelsIn } from "./name.ts";

/** The Responses API over a WebSocket: every event of it is streamed. */
const responsesSocket: Api = {
  ...openaiResponses,
  path: /\/responses$/i,
  readRequest: (body, match) => ({ ...openaiResponses.readRequest(body, match), stream: true }),
};

/** Events of clients that make no response. Any other event is a call: an unknown one may be. */
const QUIET = new Set([
  "response.cancel",
  "response.processed",
  "session.update",
  "transcription_session.update",
  "conversation.item.create",
  "conversation.item.delete",
  "conversation.item.retrieve",
  "conversation.item.truncate",
  "input_audio_buffer.clear",
  "output_audio_buffer.clear",
]);
/** Events of clients by which a server that detects turns makes a response of its own. */
const AUDIO = new Set(["input_audio_buffer.append", "input_audio_buffer.commit"]);
/** Events of servers that end a response. */
const ENDS = new Set(["response.completed", "response.incomplete", "response.failed", "response.done"]);

/** A call whose response is not complete. */
interface OpenCall {
  call: ModelCall;
  /** `event_id` of the client's event, which an error names */
  eventId?: string;
  /** id of its response, once the server has begun it */
  responseId?: string;
  /** made by audio: its response comes when the server hears the end of a turn */
  isTurn: boolean;
  /** the session has changed since its decision */
  isStale?: boolean;
  /** model of the calls before it, where it names one itself */
  mainBefore?: { name: string | undefined };
}

/** Creates a reader for the messages of an upgraded request; `undefined` for an API that is not read. */
export function socketOf(request: ModelRequest, prices: () => Prices): ModelSocket | undefined {
  const provider = providerOf(request.host);
  const api = [responsesSocket, openaiRealtime].find(({ path }) => path.test(request.path));
  return api && provider !== undefined ? new SocketReader(request, provider, api, prices) : undefined;
}

class SocketReader implements ModelSocket {
  readonly requestMax = REQUEST_MAX;
  readonly responseMax = LINE_MAX;
  readonly #request: ModelRequest;
  readonly #provider: string;
  readonly #api: Api;
  readonly #prices: () => Prices;
  readonly #model: SessionModel;
  #open: OpenCall[] = [];

  constructor(request: ModelRequest, provider: string, api: Api, prices: () => Prices) {
    this.#request = request;
    this.#provider = provider;
    this.#api = api;
    this.#prices = prices;
    this.#model = new SessionModel(request.query);
  }

  request(text: string | undefined): SocketRequest | undefined {
    const event = text === undefined ? {} : eventOf(text);
    const type = textOf(event.type);
    if (type === "session.update" || type === "transcription_session.update") {
      this.#model.update(event);
      // The turn that is under way may be answered by another model than was decided on.
      for (const open of this.#open) open.isStale = true;
    }
    // With a repeated key, the server may read another event.
    const isClear = text !== undefined && findAmbiguity(text) === undefined;
    if (isClear && QUIET.has(type)) return undefined;
    const turn = this.#open.find(({ isTurn, responseId }) => isTurn && responseId === undefined);
    const isTurn = AUDIO.has(type);
    if (isTurn && turn && !turn.isStale && isClear) return undefined;
    const call = this.#begin({ event, isTurn });
    // A client that asks for the response itself does not wait for the server to hear a turn.
    if (turn) this.#close(turn.call);
    return { call, isTurn, ...(turn && { replaces: turn.call }) };
  }

  refuse(call: ModelCall, code: string, message: string): string {
    const { eventId, mainBefore } = this.#open.find((open) => open.call === call) ?? {};
    // The server never saw its model.
    if (mainBefore) this.#model.main = mainBefore.name;
    this.#close(call);
    const error = {
      type: "invalid_request_error",
      code,
      message,
      param: null,
      ...(eventId !== undefined && { event_id: eventId }),
    };
    return JSON.stringify({ type: "error", status: 403, error });
  }

  response(text: string): SocketResponse | undefined {
    const event = eventOf(text);
    const type = textOf(event.type);
    if (type === "session.created" || type === "session.updated") this.#model.confirm(event);
    const id = nameOf(event.response_id) ?? nameOf(objectOf(event.response).id);
    if (type === "error") return this.#error(event);
    if (!type.startsWith("response.")) return undefined;
    const isEnd = ENDS.has(type);
    const open = this.#find(id, type);
    if (!open) return undefined;
    if (isEnd) this.#close(open.call);
    const isRead = isEnd || type === "response.output_item.done";
    return { call: open.call, status: 200, isRead, isEnd };
  }

  /** Finds the call of a response: by its id, the oldest call without one, or a new, unrequested call. */
  #find(id: string | undefined, type: string): OpenCall | undefined {
    if (id === undefined) return this.#open[0];
    const known = this.#open.find(({ responseId }) => responseId === id);
    if (known) return known;
    const next = this.#open.find(({ responseId }) => responseId === undefined);
    if (next) next.responseId = id;
    if (next || type !== "response.created") return next;
    this.#begin({ event: {}, isTurn: false });
    const open = this.#open.at(-1)!;
    open.responseId = id;
    return open;
  }

  /** Finds the call that an error ends: the one it names, or the one under way. */
  #error(event: Json): SocketResponse | undefined {
    const eventId = nameOf(objectOf(event.error).event_id);
    const isRealtime = this.#api === openaiRealtime;
    const open = eventId === undefined && isRealtime
      ? undefined
      : this.#open.find((each) => eventId === undefined || each.eventId === eventId);
    if (!open) return undefined;
    this.#close(open.call);
    return {
      call: open.call,
      status: countOf(event.status) ?? 400,
      isRead: true,
      isEnd: true,
    };
  }

  #begin({ event, isTurn }: { event: Json; isTurn: boolean }): ModelCall {
    const call = new CallReader({
      head: { ...this.#request, query: this.#queryOf(event) },
      apis: [this.#api],
      match: this.#api.path.exec(this.#request.path),
      provider: this.#provider,
      bodyMax: REQUEST_MAX,
      prices: this.#prices(),
    });
    const eventId = nameOf(event.event_id);
    const name = this.#api.modelInBody ? nameOf(event.model) : undefined;
    const mainBefore = name === undefined ? undefined : { name: this.#model.main };
    if (name !== undefined) this.#model.main = name;
    this.#open.push({
      call,
      isTurn,
      ...(eventId !== undefined && { eventId }),
      ...(mainBefore && { mainBefore }),
    });
    return call;
  }

  /** Models that may answer a message beside those at its top, as a query. */
  #queryOf(event: Json): string {
    const nested = objectOf(event.response).model;
    const names = typeof nested === "string" ? `&model=${encodeURIComponent(nested)}` : "";
    const isNamed = event.model !== undefined && this.#api.modelInBody;
    return (isNamed ? "" : this.#model.query) + names;
  }

  #close(call: ModelCall): void {
    this.#open = this.#open.filter((open) => open.call !== call);
  }
}

/** Event of a message; empty for text that holds no event. */
function eventOf(text: string): Json {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Most names kept, and most updates that wait for their confirmation; beyond them, calls cannot be read. */
const KEPT_MAX = 64;

/** Models that may answer on a WebSocket, as its address, its calls and its session name them. */
class SessionModel {
  /** model of the address, of the last call that was sent, or of the session as the server confirmed it */
  main?: string;
  /** models that updates of the session ask for, oldest first; the server may be late, or refuse one */
  readonly #wanted: (string | undefined)[] = [];
  /** further models, such as a transcription's */
  readonly #more = new Set<string>();
  #isFull = false;

  /** @param query of the upgraded request */
  constructor(query: string) {
    const [main, ...more] = new URLSearchParams(query).getAll("model");
    this.main = main;
    for (const name of more) this.#add(name);
  }

  /**
   * Reads `session.update` of a client: until the server confirms it, the model before may answer as well.
   */
  update(event: Json): void {
    const session = objectOf(event.session);
    const wanted = nameOf(session.model);
    for (const name of modelsIn(session)) if (name !== wanted && name !== this.main) this.#add(name);
    if (this.#wanted.length < KEPT_MAX) this.#wanted.push(wanted);
    else this.#isFull = true;
  }

  /**
   * Reads `session.created` of a server, and `session.updated`, which confirms an
   * update no older than the first one.
   */
  confirm({ type, session }: Json): void {
    if (type === "session.updated") this.#wanted.shift();
    this.main = nameOf(objectOf(session).model) ?? this.main;
  }

  /** Query of a call without a model of its own: one `model` for each that may answer it. */
  get query(): string {
    const names = new Set([this.main, ...this.#wanted, ...this.#more]);
    names.delete(undefined);
    // An empty name is invalid: the call is refused.
    if (this.#isFull) names.add("");
    return [...names].map((name) => `model=${encodeURIComponent(name!)}`).join("&");
  }

  #add(name: string): void {
    if (this.#more.size < KEPT_MAX) this.#more.add(name);
    else this.#isFull = true;
  }
}
