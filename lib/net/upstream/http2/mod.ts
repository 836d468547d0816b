/** HTTP/2 to upstreams (RFC 9113): the client's half, without priorities and without push. */
export type { Http2Exchange } from "./stream.ts";
export { Http2Session } from "./session.ts";
