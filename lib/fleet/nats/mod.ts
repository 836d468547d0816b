/**
 * NATS with JetStream as the way between machines and a receiver: addresses, subjects and connections
 * (docs/guides/fleet.md).
 */
export { type NatsAddress, parseNats, PARTS_HEADER, refuseClear, subjects, TO_HEADER } from "./address.ts";
export { natsError, type NatsLink, openNats } from "./link.ts";
