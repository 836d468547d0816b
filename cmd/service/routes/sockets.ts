/** WebSockets of terminals and of live events (docs/design/contracts/02-http.md §2). */
import type { Context, Hono } from "hono";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseJson } from "../../../lib/base/json/mod.ts";
import type { CallStream } from "../../../lib/session/ipc/mod.ts";
import {
  findJob,
  type Notices,
  requireTerminal,
  type Supervisor,
  type Vm,
} from "../../../lib/service/mod.ts";
import { traceOf } from "../handle.ts";

/** Size of a terminal until its client sends one. */
const DEFAULT_SIZE = { cols: 80, rows: 24 };
/** `bytes` that may wait for a slow listener of `/events` before it is disconnected. */
const LISTENER_BACKLOG = 4 * 1024 * 1024;
/** Most columns, and most rows, of a terminal. */
const CELLS_MAX = 1000;

/** The WebSockets of terminals and events (docs/design/contracts/02-http.md §2). */
export function routeSockets(app: Hono, supervisor: Supervisor, notices: Notices): void {
  app.get("/events", (context) => {
    const { socket, response } = upgrade(context);
    const stop = notices.listen((notice) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > LISTENER_BACKLOG) return socket.close(1013, "too slow");
      socket.send(JSON.stringify(notice));
    });
    socket.onclose = stop;
    return response;
  });

  app.get("/terminal/:id", async (context) => {
    const vm = supervisor.find(context.req.param("id"));
    await supervisor.ready(vm, "a terminal");
    const argv = argvOf(context.req.query("argv"));
    const job = await jobOf(vm, context.req.query("job"));
    if (job && argv) throw new SbxError("request.invalid", "argv and job cannot be combined");
    const call = await vm.process.open({ t: "Terminal", ...DEFAULT_SIZE, argv, job, ...traceOf(context) });
    const { socket, response } = upgrade(context);
    socket.binaryType = "arraybuffer";
    let shown: Promise<void> | undefined;
    socket.onopen = () => shown = show(call, socket);
    socket.onclose = () => call.close();
    socket.onmessage = ({ data }) =>
      void type(call, data).catch(async (error) => {
        const isInvalid = error instanceof SbxError && error.code === "request.invalid";
        // A terminal that has ended takes no input: its own reason comes first, such as a
        // rule that blocked its program.
        if (!isInvalid) await shown;
        if (socket.readyState === WebSocket.OPEN) {
          socket.close(isInvalid ? 1007 : 1011, isInvalid ? error.message : "the VM went away");
        }
      });
    return response;
  });
}

export function upgrade(context: Context): { socket: WebSocket; response: Response } {
  if (context.req.header("upgrade")?.toLowerCase() !== "websocket") {
    throw new SbxError("request.invalid", `${context.req.path} is a WebSocket`);
  }
  return Deno.upgradeWebSocket(context.req.raw);
}

async function show(call: CallStream<"Terminal">, socket: WebSocket): Promise<void> {
  try {
    for (let reply = await call.next(); reply !== null; reply = await call.next()) {
      if (socket.readyState === WebSocket.OPEN) {
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

async function type(call: CallStream<"Terminal">, data: unknown): Promise<void> {
  if (data instanceof ArrayBuffer) {
    return await call.send({ t: "Data", data: new Uint8Array(data).toBase64() });
  }
  await call.send({ t: "Resize", ...sizeOf(String(data)) });
}

/** @throws {SbxError} `request.invalid` */
function sizeOf(text: string): { cols: number; rows: number } {
  try {
    const { cols, rows } = parseJson(text) as { cols: number; rows: number };
    if ([cols, rows].every((n) => Number.isInteger(n) && n > 0 && n <= CELLS_MAX)) return { cols, rows };
  } catch {
    // invalid: see below
  }
  throw new SbxError("request.invalid", "a terminal's size is {cols, rows}");
}

/**
 * Id of the job whose terminal is meant.
 * @throws {SbxError} `job.not_found`, `job.ended`, `job.no_terminal`
 */
async function jobOf(vm: Vm, id: string | undefined): Promise<string | undefined> {
  if (id === undefined) return undefined;
  requireTerminal(await findJob(vm, id));
  return id;
}

/** Program of a terminal of its own: `?argv=["top"]`. */
function argvOf(text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  try {
    const argv = parseJson(text);
    if (Array.isArray(argv) && argv.length > 0 && argv.every((part) => typeof part === "string")) return argv;
  } catch {
    // invalid: see below
  }
  throw new SbxError("request.invalid", "argv is a JSON list of strings");
}
