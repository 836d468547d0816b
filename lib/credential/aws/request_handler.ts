/** The way of Amazon's library to the network: requests of the host, by its proxy and authorities. */
import { HttpResponse } from "@smithy/core/protocols";
import { SbxError } from "../../base/error/mod.ts";

/** A request of the library. */
interface LibraryRequest {
  protocol: string;
  hostname: string;
  port?: number;
  method: string;
  path: string;
  query?: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: unknown;
}

/** @param fetch follows no redirects, and reads answers whole */
export function fetchHandler(fetch: (url: string, init: RequestInit) => Promise<Response>) {
  const handler = {
    /** of the last request, in the host's own words */
    failure: undefined as SbxError | undefined,
    async handle(request: LibraryRequest): Promise<{ response: HttpResponse }> {
      const { protocol, hostname, port, method, path, query = {}, headers, body } = request;
      const url = new URL(`${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}`);
      for (const [name, value] of Object.entries(query)) {
        for (const each of [value].flat()) url.searchParams.append(name, each ?? "");
      }
      const sent = Object.entries(headers).filter(([name]) => !/^(?:host|content-length)$/i.test(name));
      const hasBody = method !== "GET" && method !== "HEAD";
      handler.failure = undefined;
      const answer = await fetch(url.href, {
        method,
        headers: sent,
        ...(hasBody && body !== undefined && { body: body as BodyInit }),
      }).catch((error) => {
        if (error instanceof SbxError) handler.failure = error;
        throw error;
      });
      return {
        response: new HttpResponse({
          statusCode: answer.status,
          headers: Object.fromEntries(answer.headers),
          body: answer.body ?? undefined,
        }),
      };
    },
    updateHttpClientConfig(): void {},
    httpHandlerConfigs: () => ({}),
    destroy(): void {},
  };
  return handler;
}
