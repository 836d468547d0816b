/** Ports of the host that lead into a VM (docs/guides/ports.md). */
export {
  type ConnectPort,
  PORT_CONNECTIONS_MAX,
  type PortRecorder,
  Ports,
  PORTS_MAX,
  type PortUser,
  type PortWork,
} from "./ports.ts";
export { PortNumber, PortRecord } from "./schema.ts";
