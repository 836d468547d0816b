import { HOST_CID } from "./messages.ts";

/**
 * Most `bytes` of one write to the host. Kernels from 6.12.53 on split writes longer than 32 KiB less their
 * own overhead into several buffers of the vsock's queue, and vhost-device-vsock 0.3 drops such a packet.
 */
const WRITE_MAX = 16 * 1024;

/**
 * Connects a guest program to a vsock port of the host. A write takes 16 KiB at most:
 * callers write with `writeAll`.
 */
export async function connectHost(port: number): Promise<Deno.Conn> {
  const conn = await Deno.connect({ transport: "vsock", cid: HOST_CID, port });
  const write = conn.write.bind(conn);
  conn.write = (bytes) => write(bytes.subarray(0, WRITE_MAX));
  return conn;
}
