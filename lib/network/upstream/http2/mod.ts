/** HTTP/2 client for upstreams (RFC 9113), without priorities and server push. */
export type { Http2Exchange } from "./stream.ts";
export { Http2Session } from "./session.ts";
