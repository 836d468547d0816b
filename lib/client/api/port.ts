/** Routes of forwarded ports (docs/design/contracts/02-http.md §2, "Ports"). */
import { createRoute, z } from "@hono/zod-openapi";
import { PortRecord } from "../../session/forward/schema.ts";
import { answers, body, VmParam } from "./common.ts";

const { guest_port, host_port } = PortRecord.shape;

export const Port = z.object(PortRecord.shape).openapi("Port");
export type Port = z.infer<typeof Port>;

export const PortList = z.object({
  ports: z.array(Port),
  named: z.array(guest_port).optional().describe("ports that the VM's image names, forwarded or not"),
}).openapi("PortList");
export type PortList = z.infer<typeof PortList>;

export const PortRequest = z.strictObject({
  guest_port,
  host_port: host_port.optional().describe("default: the same, or a free one where that is taken"),
}).openapi("PortOpen");
export type PortRequest = z.infer<typeof PortRequest>;

const tags = ["port"];
const PortParam = VmParam.extend({
  port: z.string().openapi({ param: { name: "port", in: "path" }, example: "5173" }),
});

export const portRoutes = {
  list: createRoute({
    method: "get",
    path: "/vms/{id}/ports",
    tags,
    request: { params: VmParam },
    responses: answers("ports of 127.0.0.1 that lead into the VM", PortList),
  }),
  open: createRoute({
    method: "post",
    path: "/vms/{id}/ports",
    tags,
    request: { params: VmParam, ...body(PortRequest) },
    responses: answers("the port, open until it is removed or the VM ends", Port),
  }),
  close: createRoute({
    method: "delete",
    path: "/vms/{id}/ports/{port}",
    tags,
    request: { params: PortParam },
    responses: answers("the port, which is closed with its connections", Port),
  }),
};
