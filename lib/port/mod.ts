/** Ports of the host that lead into a VM (docs/ports.md). */
export { type ConnectPort, PORT_CONNECTIONS_MAX, Ports, PORTS_MAX } from "./ports.ts";
export { PortNumber, PortRecord } from "./schema.ts";
