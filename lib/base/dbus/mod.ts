/** The D-Bus of a desktop session, and its notifications. Loading takes 60 ms, so load it only when used. */
export { busAddress, closeBus, connectBus, DbusBoard } from "./connect.ts";
