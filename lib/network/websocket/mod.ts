/**
 * WebSockets of a guest: a strict parser of frames, and a relay that rewrites each frame
 * (docs/concepts/network.md).
 */
export { CLOSE, type DataPiece } from "./frame.ts";
export { checkAccept, EXTENSIONS, upgradeOf } from "./handshake.ts";
export { type SocketChannel, SocketEnded, SocketRelay } from "./relay.ts";
