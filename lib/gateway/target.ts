import { SbxError } from "../base/error/mod.ts";

/** A request's target as it came, taken apart but not normalized: what is checked is what is sent on. */
export interface Target {
  /** host and port as the server saw them */
  authority: string;
  /** from the first `/`, still percent-encoded */
  path: string;
  /** query with its `?` and without `token`; empty when there is none */
  query: string;
  /** value of `?token=` */
  token?: string;
}

/**
 * Takes apart the URL of a request.
 *
 * @throws SbxError `request.invalid` for characters that no URL has
 */
export function parseTarget(url: string): Target {
  const parts = /^https?:\/\/([^/?#\\]*)(\/[^?]*)?(?:\?(.*))?$/i.exec(url);
  if (parts === null || !/^[\x21-\x7e]*$/.test(url) || /[#\\]/.test(url)) {
    throw new SbxError("request.invalid", "the request's target has characters that a URL may not have", {
      hint: "percent-encode them",
    });
  }
  const [, authority, path = "/", query = ""] = parts;
  const pairs = query.split("&").filter((pair) => pair !== "");
  const kept = pairs.filter((pair) => nameOf(pair) !== "token");
  const token = pairs.length === kept.length
    ? undefined
    : new URLSearchParams(query).get("token") ?? undefined;
  return { authority, path, query: kept.length === 0 ? "" : `?${kept.join("&")}`, token };
}

function nameOf(pair: string): string | undefined {
  return new URLSearchParams(pair).keys().next().value;
}
