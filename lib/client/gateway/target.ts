import { SbxError } from "../../base/error/mod.ts";

/** Target of a request, split but not normalized: the checked bytes are the bytes that are forwarded. */
export interface RequestTarget {
  /** host and port as received by the server */
  authority: string;
  /** from the first `/`, still percent-encoded */
  path: string;
  /** query with its `?` and without `token`; may be empty */
  query: string;
  /** value of `?token=` */
  token?: string;
}

/**
 * Splits the URL of a request.
 *
 * @throws {SbxError} `request.invalid`: characters that are not allowed in a URL
 */
export function parseTarget(url: string): RequestTarget {
  const parts = /^(?:https?|http\+unix):\/\/([^/?#\\]*)(\/[^?]*)?(?:\?(.*))?$/i.exec(url);
  if (parts === null || !/^[\x21-\x7e]*$/.test(url) || /[#\\]/.test(url)) {
    throw new SbxError(
      "request.invalid",
      "the request target contains characters that are not allowed in a URL",
      {
        hint: "percent-encode them",
      },
    );
  }
  const [, authority, path = "/", query = ""] = parts;
  const pairs = query.split("&").filter((pair) => pair !== "");
  const forwarded = pairs.filter((pair) => nameOf(pair) !== "token");
  const token = pairs.length === forwarded.length
    ? undefined
    : new URLSearchParams(query).get("token") ?? undefined;
  return { authority, path, query: forwarded.length === 0 ? "" : `?${forwarded.join("&")}`, token };
}

function nameOf(pair: string): string | undefined {
  return new URLSearchParams(pair).keys().next().value;
}
