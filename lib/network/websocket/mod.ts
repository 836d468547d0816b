/**
 * WebSockets of a guest: a strict parser of frames, and a relay that rewrites each frame
 * (docs/concepts/network.md).
 */
export { CLOSE, type DataPiece, type Side } from "./frame.ts";
export { agreeWithGuest, agreeWithUpstream, type Deflate, DEFLATE_OFFER, EXTENSIONS } from "./deflate.ts";
export { checkAccept, upgradeOf } from "./handshake.ts";
export { type SocketChannel, SocketEnded, SocketRelay } from "./relay.ts";
