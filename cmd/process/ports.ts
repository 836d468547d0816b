/** Ports of the VM, as the service calls them. */
import { log } from "../../lib/base/log/mod.ts";
import { PORT_PROGRAM } from "../../lib/machine/guest/mod.ts";
import type { Call, Reply } from "../../lib/session/ipc/mod.ts";
import type { ConnectPort, PortRecorder, Ports, PortUser } from "../../lib/session/forward/mod.ts";
import type { Session } from "../../lib/session/mod.ts";

export type PortCall = Extract<Call, { t: "Ports" | "PortOpen" | "PortClose" }>;

/** Connects to ports of a session's guest: policy decides on each connection, as on a program. */
export function portConnector(session: Session): ConnectPort {
  return async (port, streams, gone) => {
    const call = { t: "Exec" as const, argv: [PORT_PROGRAM, `${port}`], stdin: true };
    return (await session.exec(call, streams, gone)).exit_code;
  };
}

/** Records the ports of a session: rules on `sbx-port` apply from the opening on (docs/guides/ports.md). */
export function portRecorder({ enforcement }: Pick<Session, "enforcement">): PortRecorder {
  return {
    async opening(work) {
      return await (await enforcement).openPort(work);
    },
    closed(work, opened) {
      enforcement.then((each) => each.portClosed(work, opened)).catch((error) => log.warn(error));
    },
  };
}

export async function replyToPortCall(ports: Ports, call: PortCall): Promise<Reply> {
  switch (call.t) {
    case "Ports":
      return { t: "Ports", ports: ports.list() };
    case "PortOpen":
      return { t: "Port", port: await ports.open(call.guest_port, userOf(call), call.host_port) };
    case "PortClose":
      return { t: "Port", port: ports.close(call.guest_port, userOf(call)) };
  }
}

function userOf({ client, trace_id }: PortUser): PortUser {
  return { client, ...(trace_id !== undefined && { trace_id }) };
}
