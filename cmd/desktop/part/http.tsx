import type { HttpBody, HttpEvent } from "../../../lib/event/mod.ts";
import { text } from "../text/en.ts";

/** `characters` of a body that are drawn; the record has all of them. */
const BODY_MAX = 20_000;

/** One HTTP message: its first line, its headers, its body. */
export function HttpMessage(
  { label, line, headers = {}, body }: {
    label: string;
    line: string;
    headers?: Record<string, string[]>;
    body?: HttpBody;
  },
) {
  return (
    <section aria-label={label} class="message">
      <h3>{label}</h3>
      <p>
        <code>{line}</code>
      </p>
      <dl class="fields" tabIndex={0} aria-label={text.http.headersOf(label)}>
        {Object.entries(headers).map(([name, values]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{values.join(", ")}</dd>
          </div>
        ))}
      </dl>
      <BodyText label={label} body={body} />
    </section>
  );
}

/** A body as text, or why it is missing. */
export function BodyText({ label, body }: { label: string; body?: HttpBody }) {
  const words = text.http;
  if (!body || body.state === "missing") return <p class="hint">{words.noBody}</p>;
  if (body.text === undefined) return <p class="hint">{words.state[body.state](body.size ?? 0)}</p>;
  return (
    <>
      <pre class="body" tabIndex={0} aria-label={words.bodyOf(label)}>{body.text.slice(0, BODY_MAX)}</pre>
      {(body.truncated || body.text.length > BODY_MAX) && <p class="hint">{words.cut}</p>}
    </>
  );
}

/** The request of an event and, where it has come, the response. */
export function HttpExchange({ http }: { http: HttpEvent }) {
  const { request, response } = http;
  const words = text.http;
  return (
    <>
      <HttpMessage
        label={words.request}
        line={[request.method, request.url].join(" ")}
        headers={request.headers}
        body={request.body}
      />
      {response && (
        <HttpMessage
          label={words.response}
          line={String(response.status)}
          headers={response.headers}
          body={response.body}
        />
      )}
      {response?.messages && (
        <SocketMessages messages={response.messages} missing={response.messages_missing} />
      )}
    </>
  );
}

/** The messages of a WebSocket, in the order in which they ended. */
function SocketMessages(
  { messages, missing }: {
    messages: NonNullable<NonNullable<HttpEvent["response"]>["messages"]>;
    missing: number | undefined;
  },
) {
  const words = text.http;
  return (
    <section aria-label={words.messages} class="message">
      <h3>{words.messages}</h3>
      {messages.length === 0 && <p class="hint">{text.common.none}</p>}
      {messages.map(({ at_ms, from, ...body }, at) => (
        <div key={at}>
          <p class="hint">{words.message(at_ms, from)}</p>
          <BodyText label={words.message(at_ms, from)} body={body} />
        </div>
      ))}
      {missing !== undefined && <p class="hint">{words.messagesMissing(missing)}</p>}
    </section>
  );
}

/** `characters` of a value that are drawn; the record has all of them. */
const VALUE_MAX = 20_000;

/** Fields of an event as text, by their paths. */
export function EventFields({ value }: { value: Record<string, unknown> }) {
  return (
    <dl class="fields" tabIndex={0}>
      {[...pathsOf(value, "")].map(([path, text]) => (
        <div key={path}>
          <dt>{path}</dt>
          <dd>{text.slice(0, VALUE_MAX)}</dd>
        </div>
      ))}
    </dl>
  );
}

function* pathsOf(value: unknown, path: string): Generator<[string, string]> {
  if (typeof value !== "object" || value === null) {
    if (value !== undefined && value !== "") yield [path, String(value)];
  } else if (Array.isArray(value) && value.every((each) => typeof each !== "object")) {
    if (value.length > 0) yield [path, value.join(" ")];
  } else {
    for (const [key, each] of Object.entries(value)) yield* pathsOf(each, path ? `${path}.${key}` : key);
  }
}
