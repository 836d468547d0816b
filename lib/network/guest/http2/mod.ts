/** HTTP/2 server for guests (RFC 9113): each stream is an exchange, as an HTTP/1.1 request is. */
export { beginsHttp2, GuestHttp2 } from "./session.ts";
export { Http2Room } from "./room.ts";
