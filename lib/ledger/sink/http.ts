import { asSbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { DeliveryError } from "./record.ts";

/** Timeout of a request, in `ms`. */
const REQUEST_MS = timeLimit(10_000);
/** Maximum characters read of a response body. */
const RESPONSE_MAX = 64 * 1024;

/** Address of a receiver. */
export interface Endpoint {
  /** http or https URL, without a user or password */
  endpoint: string;
  /** makes the `authorization` header of each request; a failure is a failed delivery */
  authorize?: (url: URL) => Promise<string>;
}

/** HTTP receiver of findings. Its credential is in no message. */
export class HttpReceiver {
  readonly #url: URL;
  readonly #authorize: Endpoint["authorize"];
  /** origin of the URL, for messages, or words for a secret one */
  readonly origin: string;

  /** @throws {TypeError} an invalid URL */
  constructor(url: URL, authorize?: Endpoint["authorize"], shown = url.origin) {
    this.#url = new URL(url);
    this.#url.username = this.#url.password = "";
    this.#authorize = authorize;
    this.origin = shown;
  }

  /**
   * Posts JSON; bytes are sent as they are. 2xx is success; 400, 413, 415 and 422 reject the body for good;
   * anything else is retried, also a wrong address or password, because it can be corrected.
   *
   * @returns the beginning of the response body
   * @throws {DeliveryError}
   */
  async post(body: unknown, headers: Record<string, string>, signal: AbortSignal): Promise<string> {
    const authorization = await this.#authorize?.(this.#url).catch((error) => {
      const { message, hint } = asSbxError(error, `authenticating to ${this.origin}`);
      throw new DeliveryError(hint ? `${message} (${hint})` : message);
    });
    const deadline = AbortSignal.timeout(REQUEST_MS);
    let response: Response;
    try {
      response = await hostFetch(this.#url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...headers,
          ...(authorization && { authorization }),
        },
        body: body instanceof Uint8Array ? body as Uint8Array<ArrayBuffer> : JSON.stringify(body),
        // A redirect would lead to a receiver that is not configured.
        redirect: "manual",
        signal: AbortSignal.any([signal, deadline]),
      });
    } catch (error) {
      const reason = deadline.aborted
        ? `did not respond within ${REQUEST_MS / 1000} s`
        : withAuthorities(tlsProblem(error)) ?? "cannot be reached";
      throw new DeliveryError(`${this.origin} ${reason}`);
    }
    const { status } = response;
    const text = await readShortText(response);
    if (status >= 200 && status < 300) return text;
    const isRejected = [400, 413, 415, 422].includes(status);
    throw new DeliveryError(
      `${this.origin} responded with status ${status}`,
      isRejected,
      parseRetryAfter(response.headers.get("retry-after")),
      // 503 is about all of them: it is busy.
      status >= 500 && status !== 503,
    );
  }
}

/** Failures of TLS, by the words of Deno's library. The error itself may hold a secret address. */
const TLS_PROBLEMS: [RegExp, string][] = [
  [/UnknownIssuer|self.signed/i, "has a certificate of an authority that is not trusted"],
  [
    /CaUsedAsEndEntity/,
    "has the certificate of an authority as its own (CA:TRUE): it needs one that is signed by it",
  ],
  [/NotValidForName|certificate not valid for name/i, "has a certificate for another name"],
  [/Expired/, "has a certificate that has expired"],
  [/NotValidYet/, "has a certificate that is not valid yet"],
  [/certificate/i, "has a certificate that is not valid"],
  [/InvalidContentType|corrupt message/i, "does not speak TLS"],
];

/** The problem of TLS in words, without the authorities that were asked. */
export function tlsProblem(error: unknown): string | undefined {
  const { message, cause } = error as Error;
  const text = `${message} ${cause instanceof Error ? cause.message : ""}`;
  return TLS_PROBLEMS.find(([words]) => words.test(text))?.[1];
}

function withAuthorities(problem: string | undefined): string | undefined {
  return problem?.includes("authority")
    ? `${problem} (authorities: the machine's, and of the setting network.extra_ca_file)`
    : problem;
}

/** Parses a Retry-After header, in seconds or as a date. @returns `ms` */
function parseRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

/** Reads the beginning of a body. */
async function readShortText({ body }: Response): Promise<string> {
  if (!body) return "";
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > RESPONSE_MAX) break;
    }
  } catch {
    // An interrupted body; the status is enough.
  }
  return text;
}
