import type { Context, Hono } from "hono";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { IpcCall } from "../../../lib/ipc/mod.ts";
import type { Supervisor } from "../../../lib/service/mod.ts";

/** Size of a terminal until its client says another. */
const DEFAULT_SIZE = { cols: 80, rows: 24 };
/** Bytes that may wait for a slow listener of `/events` before it is cut off. */
const LISTENER_BACKLOG = 4 * 1024 * 1024;
const MAX_CELLS = 1000;

/** The two WebSockets (contracts.md §2). */
export function routeSockets(app: Hono, supervisor: Supervisor): void {
  app.get("/events", (context) => {
    const { socket, response } = upgrade(context);
    const stop = supervisor.listen((notice) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > LISTENER_BACKLOG) return socket.close(1013, "too slow");
      socket.send(JSON.stringify(notice));
    });
    socket.onclose = stop;
    return response;
  });

  app.get("/terminal/:id", async (context) => {
    const vm = supervisor.find(context.req.param("id"));
    await supervisor.ready(vm);
    const argv = argvOf(context.req.query("argv"));
    const call = await IpcCall.open(vm.paths.socket, { t: "Terminal", ...DEFAULT_SIZE, argv });
    const { socket, response } = upgrade(context);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => void show(call, socket);
    socket.onclose = () => call.close();
    socket.onmessage = ({ data }) =>
      void type(call, data).catch((error) => {
        const wrong = error instanceof SbxError && error.code === "request.invalid";
        if (socket.readyState === WebSocket.OPEN) {
          socket.close(wrong ? 1007 : 1011, wrong ? error.message : "the VM went away");
        }
      });
    return response;
  });
}

function upgrade(context: Context): { socket: WebSocket; response: Response } {
  if (context.req.header("upgrade")?.toLowerCase() !== "websocket") {
    throw new SbxError("request.invalid", `${context.req.path} is a WebSocket`);
  }
  return Deno.upgradeWebSocket(context.req.raw);
}

async function show(call: IpcCall, socket: WebSocket): Promise<void> {
  try {
    for (let reply = await call.next(); reply !== null; reply = await call.next()) {
      if (reply.t === "Output" && socket.readyState === WebSocket.OPEN) {
        socket.send(Uint8Array.fromBase64(reply.data));
      }
    }
    if (socket.readyState === WebSocket.OPEN) socket.close(1000, "the terminal ended");
  } catch (error) {
    if (socket.readyState === WebSocket.OPEN) {
      socket.close(1011, error instanceof SbxError ? error.message.slice(0, 120) : "failed");
    }
  }
}

async function type(call: IpcCall, data: unknown): Promise<void> {
  if (data instanceof ArrayBuffer) {
    return await call.send({ t: "Data", data: new Uint8Array(data).toBase64() });
  }
  const size = JSON.parse(String(data));
  const valid = [size.cols, size.rows].every((n) => Number.isInteger(n) && n > 0 && n <= MAX_CELLS);
  if (!valid) throw new SbxError("request.invalid", "a terminal's size is {cols, rows}");
  await call.send({ t: "Resize", cols: size.cols, rows: size.rows });
}

/** `?argv=["top"]` runs a program of its own in the terminal. */
function argvOf(text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  try {
    const argv = JSON.parse(text);
    if (Array.isArray(argv) && argv.length > 0 && argv.every((part) => typeof part === "string")) return argv;
  } catch {
    // refused below
  }
  throw new SbxError("request.invalid", "argv is a JSON list of strings");
}
