/** Shape of a forwarded port (docs/design/contracts/02-http.md §2, "Ports"). */
import { z } from "zod";

export const PortNumber = z.int().min(1).max(65_535);

export const PortRecord = z.strictObject({
  guest_port: PortNumber.describe("port that a program of the VM listens on"),
  host_port: PortNumber.describe("port of 127.0.0.1 on the host"),
  connections: z.int().describe("open connections"),
});
export type PortRecord = z.infer<typeof PortRecord>;
