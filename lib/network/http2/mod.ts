/** HTTP/2 of both sides (RFC 9113): frames, header compression, windows, and the reader of a connection. */
export * from "./frame.ts";
export { encodeHeaders, HeaderDecoder } from "./hpack.ts";
export { Http2Body, SendWindow } from "./body.ts";
export { Http2Peer, type PeerStream } from "./peer.ts";
export { type SendingPeer, StreamSender } from "./sender.ts";
