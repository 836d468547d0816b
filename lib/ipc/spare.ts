/** A VM's process that was started ahead: it has loaded its code, has nobody's data, and waits for a session. */

/** Stands for the session among the arguments of a process that waits; as long as the id of one. */
export const NO_SESSION = "00000000-0000-0000-0000-000000000000";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Gives a process that waits its session, at its standard input. @throws {Error} it has ended */
export async function giveSession(input: WritableStream<Uint8Array>, id: string): Promise<void> {
  const writer = input.getWriter();
  await writer.write(new TextEncoder().encode(id));
  await writer.close();
}

/** Waits for a session. @returns undefined when the service has ended, which alone knows of the process */
export async function receiveSession(input: ReadableStream<Uint8Array>): Promise<string | undefined> {
  const id = await new Response(input as ReadableStream<Uint8Array<ArrayBuffer>>).text();
  return SESSION_ID.test(id) ? id : undefined;
}
