/**
 * Orders to a VM's process that was started ahead: it has loaded its code, holds no user data, and waits for
 * a session, perhaps with a machine that waits too.
 */
import { ARCHES } from "../../base/arch/mod.ts";
import { z } from "zod";

/** Stands for the session among the arguments of a process that waits; as long as the id of one. */
export const NO_SESSION = "00000000-0000-0000-0000-000000000000";

/** A machine that is started before there is a VM for it. */
export const SpareMachineOrder = z.strictObject({
  id: z.uuid().describe("id of the session to be"),
  accelerator: z.enum(["kvm", "tcg", "vz"]),
  template: z.string().describe("folder of the memory that it starts from"),
  cpus: z.int(),
  ram_mb: z.int(),
  scratch_gb: z.int(),
  assets: z.strictObject({
    arch: z.enum(ARCHES),
    kernel: z.string(),
    initrd: z.string(),
    rootfs: z.string(),
    layer: z.string().optional(),
  }),
});
export type SpareMachineOrder = z.infer<typeof SpareMachineOrder>;

const Order = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Machine"), machine: SpareMachineOrder }),
  z.strictObject({ t: z.literal("Session"), id: z.uuid() }),
]);
type Order = z.infer<typeof Order>;

/** Orders the machine of a process that waits. @throws {Error} the process has ended */
export async function giveMachine(
  input: WritableStream<Uint8Array>,
  machine: SpareMachineOrder,
): Promise<void> {
  await send(input, { t: "Machine", machine });
}

/** Gives a process that waits its session; the last order. @throws {Error} it has ended */
export async function giveSession(input: WritableStream<Uint8Array>, id: string): Promise<void> {
  await send(input, { t: "Session", id });
  await input.close();
}

/**
 * Receives orders at standard input, until the session comes or the service has ended,
 * which alone knows of the process.
 */
export async function* receiveOrders(input: ReadableStream<Uint8Array>): AsyncGenerator<Order> {
  let rest = "";
  for await (
    const text of input.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
  ) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield Order.parse(JSON.parse(line));
  }
}

async function send(input: WritableStream<Uint8Array>, order: Order): Promise<void> {
  const writer = input.getWriter();
  try {
    await writer.write(new TextEncoder().encode(`${JSON.stringify(order)}\n`));
  } finally {
    writer.releaseLock();
  }
}
