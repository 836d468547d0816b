import { NotSent } from "./sender.ts";

/** Milliseconds of one request. */
const REQUEST_MS = 10_000;
/** Bytes of an answer that are looked at. */
const ANSWER_MAX = 64 * 1024;

/** A place that findings are posted to; a name and password of its URL go into a header, and into no message. */
export class Endpoint {
  readonly #url: string;
  readonly #authorization?: string;
  /** for messages */
  readonly origin: string;

  /** @throws {TypeError} when it is no URL */
  constructor(url: string | URL) {
    const parsed = new URL(url);
    const { username, password } = parsed;
    if (username || password) {
      const bytes = new TextEncoder().encode(
        `${decodeURIComponent(username)}:${decodeURIComponent(password)}`,
      );
      this.#authorization = `Basic ${bytes.toBase64()}`;
    }
    parsed.username = parsed.password = "";
    this.#url = parsed.href;
    this.origin = parsed.origin;
  }

  /**
   * Posts JSON. 2xx has arrived; 400, 413, 415 and 422 is a body that is not taken; anything else may be well again
   * later, also a wrong address or password: somebody will correct it.
   *
   * @returns the answer, as far as it is short
   * @throws {NotSent}
   */
  async post(body: unknown, headers: Record<string, string>, signal: AbortSignal): Promise<string> {
    const deadline = AbortSignal.timeout(REQUEST_MS);
    let response: Response;
    try {
      response = await fetch(this.#url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...headers,
          ...(this.#authorization && { authorization: this.#authorization }),
        },
        body: JSON.stringify(body),
        // A receiver that sends us elsewhere is not the one that was configured.
        redirect: "manual",
        signal: AbortSignal.any([signal, deadline]),
      });
    } catch {
      const what = deadline.aborted ? `does not answer within ${REQUEST_MS / 1000} s` : "cannot be reached";
      throw new NotSent(`${this.origin} ${what}`);
    }
    const { status } = response;
    const answer = await shortText(response);
    if (status >= 200 && status < 300) return answer;
    const refused = [400, 413, 415, 422].includes(status);
    throw new NotSent(
      `${this.origin} answers ${status}`,
      refused,
      retryAfter(response.headers.get("retry-after")),
    );
  }
}

function retryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

/** The beginning of a body; the rest is not waited for. */
async function shortText({ body }: Response): Promise<string> {
  if (!body) return "";
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > ANSWER_MAX) break;
    }
  } catch {
    // The answer broke off; its status has said enough.
  }
  return text;
}
