/** Model calls of requests that a test states. */
import { ModelReader } from "../../lib/network/model/mod.ts";

export const reader = new ModelReader();

export const encode = (text: string) => new TextEncoder().encode(text);

/** The scrubber of texts without secrets. */
export const identity = (text: string) => text;

/** A POST request as the reader matches it. */
export function matchCall(
  { host, path, content_type = "application/json" }: { host: string; path: string; content_type?: string },
) {
  return reader.match({
    method: "POST",
    scheme: "https",
    host,
    port: 443,
    path,
    query: "",
    headers: [["content-type", content_type]],
  });
}
