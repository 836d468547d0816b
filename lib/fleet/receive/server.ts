/** HTTP of a receiver: three routes, each of which reads a bounded body of a possibly hostile machine. */
import { join } from "node:path";
import { joinBytes } from "../../base/bytes/mod.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { SEGMENT_BYTES_MAX } from "../segment/mod.ts";
import { openUpload } from "../ship/mod.ts";
import { Front } from "./front.ts";
import { Intake } from "./intake.ts";
import { enrol } from "./machines.ts";
import { Receiver } from "./receiver.ts";

/** Largest report and largest request of enrolment, in `bytes`. */
const REPORT_BYTES_MAX = 4 * 1024 * 1024;
const ENROL_BYTES_MAX = 4096;
/** Time for the body of an enrolment, in `ms`. */
const ENROL_MS = timeLimit(10_000);
/**
 * Failed enrolments of one minute, after which others get no reason. A good token is taken after any number
 * of them: otherwise a stranger could keep machines out.
 */
const ENROL_FAILURES_MAX = 20;

export interface ServeOptions {
  /** the store's folder */
  dir: string;
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  /** the store's receiver; absent: a new one */
  receiver?: Receiver;
  /** called after a segment was kept */
  onKept?(events: number): void;
}

/** A receiver that listens. */
export interface FleetServer {
  readonly addr: Deno.NetAddr;
  readonly finished: Promise<void>;
  /** Takes no more requests, and resolves when the accepted ones are answered. */
  shutdown(): Promise<void>;
}

/** Serves until it is shut down. */
export async function serveFleet(
  { dir, hostname, port, tls, receiver = new Receiver(dir), onKept }: ServeOptions,
): Promise<FleetServer> {
  const failures = { minute: 0, count: 0 };
  const intake = await Intake.open(dir);
  const take = async <T>(
    request: Request,
    max: number,
    work: (bytes: Uint8Array) => Promise<T>,
  ) => {
    const path = new URL(request.url).pathname.slice(1);
    const upload = await openUpload(request.headers, path, (id) => receiver.keyOf(id));
    return await intake.take(upload, request.body, max, work);
  };
  const routes: Record<string, (request: Request) => Promise<Response>> = {
    "POST /v1/segments": async (request) => {
      const answer = await take(request, SEGMENT_BYTES_MAX, (bytes) => receiver.take(bytes));
      if (!answer.kept) return Response.json({ position: answer.position }, { status: 409 });
      if (answer.isNew) onKept?.(answer.events);
      return Response.json({ kept: true }, { status: answer.isNew ? 201 : 200 });
    },
    "POST /v1/reports": async (request) => {
      await take(request, REPORT_BYTES_MAX, (bytes) => receiver.report(bytes, signerOf(bytes)));
      return Response.json({ kept: true }, { status: 201 });
    },
    "POST /v1/machines": async (request) => {
      const bytes = await readSmall(request, ENROL_BYTES_MAX);
      try {
        const { machine_id } = await enrol(dir, JSON.parse(new TextDecoder().decode(bytes)));
        log.info(`machine ${machine_id} is enrolled`);
        return Response.json({ machine_id }, { status: 201 });
      } catch (error) {
        const minute = Math.floor(Date.now() / 60_000);
        if (failures.minute !== minute) Object.assign(failures, { minute, count: 0 });
        if (++failures.count > ENROL_FAILURES_MAX) {
          throw new SbxError("auth.too_many_failures", "too many enrolments failed in this minute", {
            hint: "try again in a minute",
          });
        }
        if (error instanceof SyntaxError) {
          throw new SbxError("fleet.machine.invalid", "the request is not JSON");
        }
        throw error;
      }
    },
    "GET /healthz": () => Promise.resolve(new Response("ok\n")),
  };
  // Only this user's programs reach the server behind the port.
  const folder = await Deno.makeTempDir({ prefix: "sbx-fleet-" });
  const path = join(folder, "http.sock");
  const server = Deno.serve({ path, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    try {
      const route = routes[`${request.method} ${pathname}`];
      if (!route) throw new SbxError("route.not_found", `there is no ${request.method} ${pathname}`);
      return await route(request);
    } catch (cause) {
      const error = asSbxError(cause, `${request.method} ${pathname}`);
      const status = statusOf(error.code);
      if (status >= 500) log.error(`${error.message}${error.cause ? `: ${error.cause}` : ""}`);
      else log.warn(error.message);
      return Response.json(errorBody(error), {
        status,
        headers: status === 429 ? { "retry-after": "60" } : {},
      });
    }
  });
  let front: Front;
  try {
    front = new Front(
      tls
        ? Deno.listenTls({ hostname, port, ...tls, alpnProtocols: ["http/1.1"] })
        : Deno.listen({ hostname, port }),
      path,
    );
  } catch (error) {
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
    throw error;
  }
  const finished = server.finished.then(async () => {
    front.end();
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  });
  return {
    addr: front.addr,
    finished,
    shutdown: async () => {
      front.close();
      await server.shutdown();
      await finished;
    },
  };
}

/** Machine that signed an envelope, by its own claim. @throws {SbxError} `fleet.report.invalid` */
export function signerOf(bytes: Uint8Array): string {
  try {
    return String(JSON.parse(new TextDecoder().decode(bytes)).signatures[0].keyid);
  } catch (cause) {
    throw new SbxError("fleet.report.invalid", "the report is refused: it is not signed", { cause });
  }
}

async function readSmall(request: Request, max: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body?.getReader();
  const timer = setTimeout(() => reader?.cancel().catch(() => {}), ENROL_MS);
  try {
    while (reader && length <= max) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      length += value.length;
    }
  } finally {
    clearTimeout(timer);
    if (length > max) await reader?.cancel().catch(() => {});
  }
  if (length > max) throw new SbxError("request.too_large", `the body has more than ${max} bytes`);
  return joinBytes(chunks);
}
