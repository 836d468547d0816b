import { HOST_CID } from "../../../lib/guest/wire/mod.ts";

/** Connects to a vsock port of the host. */
export function connectHost(port: number): Promise<Deno.Conn> {
  return Deno.connect({ transport: "vsock", cid: HOST_CID, port });
}
