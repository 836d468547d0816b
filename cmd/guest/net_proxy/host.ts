import { HOST_CID } from "../../../lib/guest/messages.ts";

/** A connection to one of the host's vsock ports. */
export function connectHost(port: number): Promise<Deno.Conn> {
  return Deno.connect({ transport: "vsock", cid: HOST_CID, port });
}
