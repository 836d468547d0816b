/** Contexts that end while cells of them wait. */
import { assertEquals } from "@std/assert";
import { Guest } from "../../../cmd/sbx/e2b/guest.ts";
import { Contexts } from "../../../cmd/sbx/e2b/kernel/contexts.ts";
import { newId } from "../../../cmd/sbx/e2b/store.ts";
import { Client } from "../../../lib/client/mod.ts";

const STDOUT = 1;

/** A program of the guest. */
class Program {
  readonly cell = Promise.withResolvers<void>();

  readonly started = Promise.withResolvers<void>();

  constructor(
    readonly socket: WebSocket,
    { isReady, endsCells }: { isReady: boolean; endsCells: boolean },
  ) {
    let lines = 0;
    socket.onopen = () => {
      if (isReady) this.send('{"type":"ready","group":7}\n');
      this.started.resolve();
    };
    // Its text is the first line.
    socket.onmessage = ({ data }) => {
      if (!(data instanceof ArrayBuffer) || ++lines < 2) return;
      this.cell.resolve();
      if (endsCells) this.send('{"type":"stdout","text":"two"}\n{"type":"end_of_execution"}\n');
    };
  }

  send(text: string): void {
    this.socket.send(Uint8Array.of(STDOUT, ...new TextEncoder().encode(text)));
  }
}

/** @param work gets the list of the programs that are started */
async function withContexts(
  work: (contexts: Contexts, programs: Program[]) => Promise<void>,
  isReady = true,
): Promise<void> {
  const programs: Program[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    if (request.headers.get("upgrade") !== "websocket") {
      return Response.json({ status: "Running", stdout: "/root", stderr: "", exit_code: 0 });
    }
    const { socket, response } = Deno.upgradeWebSocket(request);
    programs.push(new Program(socket, { isReady, endsCells: programs.length > 0 }));
    return response;
  });
  using http = Deno.createHttpClient({});
  const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
  try {
    await work(new Contexts(new Guest(client, { id: newId(), vm: crypto.randomUUID() })), programs);
  } finally {
    for (const { socket } of programs) socket.close();
    await server.shutdown();
  }
}

const call = (contexts: Contexts, path: string, json?: unknown) =>
  contexts.fetch(
    new Request(`http://sandbox${path}`, {
      method: path.includes("contexts/") && json === undefined ? "DELETE" : "POST",
      ...(json !== undefined && { body: JSON.stringify(json) }),
    }),
  );

/** A cell that waits for another one. */
async function queue(contexts: Contexts, context_id: string): Promise<{ waiting: Promise<string> }> {
  const read = Promise.withResolvers<void>();
  const bytes = new TextEncoder().encode(JSON.stringify({ code: "2", context_id }));
  const body = new ReadableStream<Uint8Array>({
    start: (stream) => stream.enqueue(bytes),
    pull: (stream) => {
      stream.close();
      read.resolve();
    },
  }, { highWaterMark: 0 });
  const waiting = codeOf(contexts.fetch(new Request("http://sandbox/execute", { method: "POST", body })));
  await read.promise;
  // No request waits for anything outside of this program until its turn in the queue.
  await new Promise((resolve) => setTimeout(resolve));
  return { waiting };
}

const made = async (contexts: Contexts): Promise<string> =>
  (await (await call(contexts, "/contexts", { language: "python" })).json()).id;
const codeOf = (work: Promise<Response>) =>
  work.then(({ body }) => new Response(body).text(), ({ code }) => code as string);

const test = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name, sanitizeOps: false, sanitizeResources: false, fn });

for (
  const [what, end] of [
    ["removed", (contexts, id) => call(contexts, `/contexts/${id}`).then(() => {})],
    ["of a sandbox that is paused or ended", (contexts) => Promise.resolve(contexts.close())],
  ] as [string, (contexts: Contexts, id: string) => Promise<void>][]
) {
  test(`a context ${what} starts no program for the cells that waited`, () =>
    withContexts(async (contexts, programs) => {
      const id = await made(contexts);
      const running = codeOf(call(contexts, "/execute", { code: "1", context_id: id }));
      await programs[0].cell.promise;
      const { waiting } = await queue(contexts, id);
      await end(contexts, id);
      assertEquals((await running).includes("KernelDied"), true);
      assertEquals([await waiting, programs.length], ["kernel.not_found", 1]);
    }));
}

test("a context whose program never gets ready is removed, and its cell fails", () =>
  withContexts(async (contexts, programs) => {
    const running = codeOf(call(contexts, "/execute", { code: "1" }));
    while (programs.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await programs[0].started.promise;
    const listed = await contexts.fetch(new Request("http://sandbox/contexts"));
    const [{ id }] = await listed.json();
    assertEquals((await call(contexts, `/contexts/${id}`)).status, 204);
    assertEquals(await running, "kernel.missing");
  }, false));
