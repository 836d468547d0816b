/** HTTP of a receiver: three routes, each of which reads a bounded body of a machine that may be hostile. */
import { asSbxError, errorBody, SbxError, statusOf } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { SEGMENT_BYTES_MAX } from "../segment/mod.ts";
import { enrol } from "./machines.ts";
import { Receiver } from "./receiver.ts";

/** Largest report and largest request of enrolment, in `bytes`. */
const REPORT_BYTES_MAX = 4 * 1024 * 1024;
const ENROL_BYTES_MAX = 4096;
/** Failed enrolments of one minute, after which all are refused: nobody guesses tokens. */
const ENROL_FAILURES_MAX = 20;

export interface ServeOptions {
  /** the store's folder */
  dir: string;
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  /** the store's receiver; absent: one of its own */
  receiver?: Receiver;
  /** called after a segment was kept */
  onKept?(events: number): void;
}

/** Serves until it is shut down. */
export function serveFleet(
  { dir, hostname, port, tls, receiver = new Receiver(dir), onKept }: ServeOptions,
): Deno.HttpServer<Deno.NetAddr> {
  const failures = { minute: 0, count: 0 };
  const routes: Record<string, (request: Request) => Promise<Response>> = {
    "POST /v1/segments": async (request) => {
      const answer = await receiver.take(await readBody(request, SEGMENT_BYTES_MAX));
      if (!answer.kept) return Response.json({ position: answer.position }, { status: 409 });
      if (answer.isNew) onKept?.(answer.events);
      return Response.json({ kept: true }, { status: answer.isNew ? 201 : 200 });
    },
    "POST /v1/reports": async (request) => {
      const bytes = await readBody(request, REPORT_BYTES_MAX);
      await receiver.report(bytes, signerOf(bytes));
      return Response.json({ kept: true }, { status: 201 });
    },
    "POST /v1/machines": async (request) => {
      const bytes = await readBody(request, ENROL_BYTES_MAX);
      const minute = Math.floor(Date.now() / 60_000);
      if (failures.minute !== minute) Object.assign(failures, { minute, count: 0 });
      if (failures.count >= ENROL_FAILURES_MAX) {
        throw new SbxError("auth.too_many_failures", "too many enrolments failed in this minute", {
          hint: "try again in a minute",
        });
      }
      try {
        const { machine_id } = await enrol(dir, JSON.parse(new TextDecoder().decode(bytes)));
        log.info(`machine ${machine_id} is enrolled`);
        return Response.json({ machine_id }, { status: 201 });
      } catch (error) {
        failures.count++;
        if (error instanceof SyntaxError) {
          throw new SbxError("fleet.machine.invalid", "the request is not JSON");
        }
        throw error;
      }
    },
    "GET /healthz": () => Promise.resolve(new Response("ok\n")),
  };
  return Deno.serve({ hostname, port, onListen() {}, ...tls }, async (request) => {
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
      return Response.json(errorBody(error), { status });
    }
  });
}

/** Machine that signed an envelope, as it says itself. @throws {SbxError} `fleet.report.invalid` */
export function signerOf(bytes: Uint8Array): string {
  try {
    return String(JSON.parse(new TextDecoder().decode(bytes)).signatures[0].keyid);
  } catch (cause) {
    throw new SbxError("fleet.report.invalid", "the report is refused: it is not signed", { cause });
  }
}

async function readBody(request: Request, max: number): Promise<Uint8Array> {
  const announced = Number(request.headers.get("content-length") ?? 0);
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (announced <= max) {
    for await (const chunk of request.body ?? []) {
      length += chunk.length;
      if (length > max) break;
      chunks.push(chunk);
    }
  }
  if (announced > max || length > max) {
    throw new SbxError("request.too_large", `the body has more than ${max} bytes`);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
