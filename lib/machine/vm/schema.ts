/**
 * Lines on the console of a guest whose vsock is no device that can be ejected, as a
 * Mac's. Guest programs bundle this.
 */

/** The guest has released its vsock, and waits for a message. */
export const VSOCK_LEFT = "sbx: the vsock is free";
/** The host to a guest that has released its vsock: it may connect again. */
export const COME_BACK = "sbx: come back";
