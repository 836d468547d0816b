/** The D-Bus of a desktop session, and its notifications. Loading it takes 60 ms: what may not need it loads it when it does. */
export { busAddress, closeBus, connectBus } from "./connect.ts";
export { DbusBoard } from "./board.ts";
