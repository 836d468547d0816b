/** Limits of one sandbox, whose guest answers as it likes: watched folders, changes that wait, programs. */
import { assertEquals, assertRejects } from "@std/assert";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { Files } from "../../../cmd/sbx/e2b/filesystem.ts";
import { Guest } from "../../../cmd/sbx/e2b/guest.ts";
import { Processes } from "../../../cmd/sbx/e2b/processes.ts";
import { newId } from "../../../cmd/sbx/e2b/store.ts";
import { watchFolder } from "../../../cmd/sbx/e2b/watch.ts";
import { Client } from "../../../lib/client/mod.ts";

const STDOUT = 1;

/** Runs `work` with a guest whose programs are these sockets. */
async function withGuest(
  onProgram: (socket: WebSocket) => void,
  work: (guest: Guest) => Promise<void>,
): Promise<void> {
  const sockets = new Set<WebSocket>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    if (request.headers.get("upgrade") !== "websocket") {
      return Response.json({ status: "Running", stdout: "/root", stderr: "", exit_code: 0 });
    }
    const { socket, response } = Deno.upgradeWebSocket(request);
    sockets.add(socket);
    socket.onopen = () => onProgram(socket);
    return response;
  });
  using http = Deno.createHttpClient({});
  const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
  try {
    await work(new Guest(client, { id: newId(), vm: crypto.randomUUID() }));
  } finally {
    for (const socket of sockets) socket.close();
    await server.shutdown();
  }
}

const send = (socket: WebSocket, text: string) =>
  socket.send(Uint8Array.of(STDOUT, ...new TextEncoder().encode(text)));

const test = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name, sanitizeOps: false, sanitizeResources: false, fn });

const context = (signal = new AbortController().signal) =>
  ({ signal, requestHeader: new Headers() }) as unknown as HandlerContext;

async function codeOf(work: Promise<unknown> | unknown): Promise<Code | undefined> {
  try {
    await work;
  } catch (error) {
    return ConnectError.from(error).code;
  }
}

test("changes whose names are long do not fill the memory of the server", () => {
  const over = Promise.withResolvers<void>();
  const lines = 2000;
  let taken = 0;
  return withGuest((socket) => {
    socket.onclose = () => over.resolve();
    socket.onmessage = ({ data }) => {
      if (String(data).includes("taken") && ++taken > lines) socket.close();
    };
    send(socket, "ready\n");
    const line = `create ${"61".repeat(4096)}\n`;
    for (let at = 0; at < lines; at++) send(socket, line);
  }, async (guest) => {
    const { signal } = new AbortController();
    const changes = await watchFolder(guest, "/", { recursive: true, signal });
    // Its reader comes once all was taken, or too much.
    await over.promise;
    let size = 0;
    const error = await assertRejects(async () => {
      for await (const { name } of changes) size += name.length;
    }, ConnectError);
    assertEquals([error.code, size < 4 * 1024 * 1024], [Code.ResourceExhausted, true]);
  });
});

test("a watcher that has failed says so, and leaves its place", () => {
  const sockets: WebSocket[] = [];
  return withGuest((socket) => {
    sockets.push(socket);
    send(socket, "ready\n");
  }, async (guest) => {
    const { service } = new Files(guest);
    const make = () => service.createWatcher({ path: "/a" } as never, context());
    const ids: string[] = [];
    for (let at = 0; at < 64; at++) ids.push((await make()).watcherId!);
    assertEquals(await codeOf(make()), Code.ResourceExhausted);
    const stream = service.watchDir({ path: "/a" } as never, context())[Symbol.asyncIterator]();
    assertEquals(await codeOf(stream.next()), Code.ResourceExhausted);
    const take = () =>
      codeOf((async () => await service.getWatcherEvents({ watcherId: ids[0] } as never, context()))());
    assertEquals(await take(), undefined);
    sockets[0].close();
    while (await take() === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    assertEquals(await codeOf(make()), undefined);
    assertEquals(await codeOf(make()), Code.ResourceExhausted);
    await service.removeWatcher({ watcherId: ids[0] } as never, context());
    assertEquals(await codeOf(make()), Code.ResourceExhausted);
  });
});

test("a client that does not take a terminal's output is disconnected, and the terminal goes on", () => {
  const chunk = new Uint8Array(64 * 1024);
  let terminal: WebSocket;
  return withGuest((socket) => {
    terminal = socket;
  }, async (guest) => {
    const { service } = new Processes(guest);
    const request = { process: { cmd: "yes", args: [], envs: {} }, pty: { size: { cols: 80, rows: 24 } } };
    const stream = service.start(request as never, context())[Symbol.asyncIterator]();
    const { value } = await stream.next();
    assertEquals(value.event.event.case, "start");
    // More than the limit and what two sockets hold.
    for (let at = 0; at < 384; at++) terminal.send(chunk);
    while (terminal.bufferedAmount > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    let size = 0;
    const code = await codeOf((async () => {
      while (size < 384 * chunk.length) {
        size += (await stream.next()).value.event.event.value.output.value.length;
      }
    })());
    assertEquals([code, size < 2 * 1024 * 1024], [Code.ResourceExhausted, true]);
    const next = service.connect({ process: { selector: { case: "pid", value: 1 } } } as never, context())
      [Symbol.asyncIterator]();
    await next.next();
    terminal.send(new TextEncoder().encode("more"));
    assertEquals((await next.next()).value.event.event.case, "data");
    await next.return!(undefined);
  });
});

test("programs that start at once are no more than the limit", () =>
  withGuest(() => {}, async (guest) => {
    const { service } = new Processes(guest);
    const abort = new AbortController();
    const streams = Array.from({ length: 1100 }, () =>
      service.start({ process: { cmd: "sleep", args: [], envs: {} } } as never, context(abort.signal))
        [Symbol.asyncIterator]());
    const codes = await Promise.all(streams.map((stream) =>
      codeOf(stream.next())
    ));
    assertEquals(codes.filter((code) => code === Code.ResourceExhausted).length, 100);
    abort.abort();
    await Promise.all(streams.map((stream) => codeOf(stream.return!(undefined))));
  }));
