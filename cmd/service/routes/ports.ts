import type { Context, Hono } from "hono";
import { type PortRequest, portRoutes } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Supervisor } from "../../../lib/service/mod.ts";
import { clientOf, handle, traceOf } from "../handle.ts";

/** Routes of ports of the host that lead into VMs. */
export function routePorts(app: Hono, supervisor: Supervisor): void {
  const userOf = (context: Context) => ({ client: clientOf(context), ...traceOf(context) });
  handle(app, portRoutes.list, async ({ params }) => {
    const vm = supervisor.find(params.id);
    const { ports: named } = vm.record.environment ?? {};
    const isThere = vm.state.state === "Running" || vm.state.state === "Paused";
    const ports = isThere ? (await vm.process.call({ t: "Ports" })).ports : [];
    return { ports, ...named && { named } };
  });
  handle(app, portRoutes.open, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    await supervisor.ready(vm, "a port");
    const { guest_port, host_port } = body as PortRequest;
    return (await vm.process.call({ t: "PortOpen", guest_port, host_port, ...userOf(context) })).port;
  });
  handle(app, portRoutes.close, async ({ params, context }) => {
    const vm = supervisor.find(params.id);
    const guest_port = Number(params.port);
    if (!/^\d{1,5}$/.test(params.port) || guest_port < 1 || guest_port > 65_535) {
      throw new SbxError("port.not_found", `${JSON.stringify(params.port)} is not a port`);
    }
    return (await vm.process.call({ t: "PortClose", guest_port, ...userOf(context) })).port;
  });
}
