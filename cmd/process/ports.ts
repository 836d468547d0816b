/** Ports of the VM, as the service calls them. */
import { PORT_PROGRAM } from "../../lib/guest/mod.ts";
import type { Call, Reply } from "../../lib/ipc/mod.ts";
import type { ConnectPort, Ports } from "../../lib/port/mod.ts";
import type { Session } from "../../lib/session/mod.ts";

export type PortCall = Extract<Call, { t: "Ports" | "PortOpen" | "PortClose" }>;

/** Connects to ports of a session's guest: policy decides on each connection, as on a program. */
export function portConnector(session: Session): ConnectPort {
  return async (port, streams, gone) => {
    const call = { t: "Exec" as const, argv: [PORT_PROGRAM, `${port}`], stdin: true };
    return (await session.exec(call, streams, gone)).exit_code;
  };
}

export function replyToPortCall(ports: Ports, call: PortCall): Reply {
  switch (call.t) {
    case "Ports":
      return { t: "Ports", ports: ports.list() };
    case "PortOpen":
      return { t: "Port", port: ports.open(call.guest_port, call.host_port) };
    case "PortClose":
      return { t: "Port", port: ports.close(call.guest_port) };
  }
}
