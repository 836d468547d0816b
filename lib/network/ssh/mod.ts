/** SSH of a guest: the host knows the server and has the key, and each command is an event */
export { guestHostKey, type HostKey } from "./host_key.ts";
export { formatDisconnect } from "./refusal.ts";
export { SshProxy } from "./proxy.ts";
