/**
 * The parts of envd in a sandbox that E2B's client calls: programs and files over Connect, content over HTTP.
 */
import { createConnectRouter, type Interceptor } from "@connectrpc/connect";
import { createFetchHandler, type UniversalHandler } from "@connectrpc/connect/protocol";
import { basename } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Filesystem } from "./generated/filesystem_pb.ts";
import { Process } from "./generated/process_pb.ts";
import { Files } from "./filesystem.ts";
import { connectError, DEFAULT_USER, type Guest } from "./guest.ts";
import { Contexts } from "./kernel/contexts.ts";
import { Processes } from "./processes.ts";

/** `bytes` of one message; content of files goes over HTTP. */
const MESSAGE_MAX = 8 * 1024 * 1024;
/** `bytes` of a form, which is held in memory; streams have no such limit. */
const FORM_MAX = 64 * 1024 * 1024;

const asConnectError: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (cause) {
    throw connectError(cause);
  }
};

/** Serves one sandbox. */
export class Envd {
  /** the code interpreter beside it, of a port of its own */
  readonly contexts: Contexts;
  readonly #guest: Guest;
  readonly #processes: Processes;
  readonly #files: Files;
  readonly #handlers: Map<string, (request: Request) => Promise<Response>>;

  constructor(guest: Guest) {
    this.#guest = guest;
    this.contexts = new Contexts(guest);
    this.#processes = new Processes(guest);
    this.#files = new Files(guest);
    const router = createConnectRouter({
      grpc: false,
      grpcWeb: false,
      readMaxBytes: MESSAGE_MAX,
      interceptors: [asConnectError],
    });
    router.service(Process, this.#processes.service).service(Filesystem, this.#files.service);
    this.#handlers = new Map(router.handlers.map((handler: UniversalHandler) => [
      handler.requestPath,
      createFetchHandler(handler, { httpVersion: "1.1" }),
    ]));
  }

  get guest(): Guest {
    return this.#guest;
  }

  /** Ends its programs, watchers and contexts. */
  close(): void {
    this.contexts.close();
    this.#processes.close();
    this.#files.close();
  }

  /**
   * @param how whether a signature admitted the request, which is for one path,
   * or for names in the user's home
   * @throws {SbxError}
   */
  async fetch(request: Request, how: { isSigned: boolean }): Promise<Response> {
    const { pathname } = new URL(request.url);
    const handler = this.#handlers.get(pathname);
    if (handler) return await handler(request);
    const { method } = request;
    if (pathname === "/health" && method === "GET") return new Response(null, { status: 204 });
    if (pathname === "/files" && method === "GET") return await this.#read(request);
    if (pathname === "/files" && method === "POST") return await this.#write(request, how);
    throw new SbxError("route.not_found", `sbx does not serve ${method} ${pathname} of envd`);
  }

  async #read(request: Request): Promise<Response> {
    const { path, user } = queryOf(request);
    const response = await this.#guest.client.send("GET", `${this.#guest.path}/files/content`, {
      query: { path: await this.#guest.resolve(path, user) },
      signal: request.signal,
    });
    const headers = new Headers({ "content-type": "application/octet-stream" });
    const length = response.headers.get("content-length");
    if (length !== null) headers.set("content-length", length);
    return new Response(response.body, { headers });
  }

  async #write(request: Request, { isSigned }: { isSigned: boolean }): Promise<Response> {
    if ([...request.headers.keys()].some((name) => name.startsWith("x-metadata-"))) {
      throw new SbxError("request.unsupported", "sbx keeps no metadata of files");
    }
    const { path, user } = queryOf(request);
    if (user !== undefined) await this.#guest.user(user);
    const type = request.headers.get("content-type") ?? "";
    const written: { name: string; type: "file"; path: string }[] = [];
    const write = async (name: string, body: BodyInit) => {
      const place = await this.#guest.resolve(name, user);
      await this.#guest.client.send("POST", `${this.#guest.path}/files/content`, {
        query: { path: place },
        body,
        headers: { "content-type": "application/octet-stream" },
        signal: request.signal,
      });
      if (user !== undefined && user !== DEFAULT_USER) await this.#own(place, user);
      written.push({ name: basename(place), type: "file", path: place });
    };
    if (type.startsWith("multipart/form-data")) {
      for (const part of (await formOf(request)).getAll("file")) {
        const name = path === "" && part instanceof File ? part.name : path;
        // The name is the sender's: no path was signed.
        if (isSigned && path === "" && !/^(?!\.{0,2}$|~)[^/]*$/.test(name)) {
          throw new SbxError(
            "request.invalid",
            "a URL that is signed without a path takes names of files alone",
          );
        }
        await write(name, part instanceof File ? part.stream() : part);
      }
    } else await write(path, contentOf(request));
    if (written.length === 0) throw new SbxError("request.invalid", "the form has no file");
    return Response.json(written);
  }

  async #own(path: string, user: string): Promise<void> {
    const { exit_code, stderr } = await this.#guest.run(`exec chown -h -- "$2:" "$1"`, [path, user]);
    if (exit_code === 0) return;
    throw new SbxError("guest.failed", `${path} is written, and is root's: ${stderr.trim()}`);
  }
}

/** @throws {SbxError} `request.invalid` */
function queryOf({ url, method }: Request): { path: string; user?: string } {
  const query = new URL(url).searchParams;
  const path = query.get("path") ?? "";
  if (path === "" && method === "GET") throw new SbxError("request.invalid", "the request names no path");
  const user = query.get("username");
  return { path, ...user !== null && user !== "" && { user } };
}

/** @throws {SbxError} `request.too_large`, `request.invalid` */
async function formOf(request: Request): Promise<FormData> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const bytes of contentOf(request)) {
    size += bytes.length;
    if (size > FORM_MAX) {
      throw new SbxError("request.too_large", `a form has at most ${FORM_MAX / 1024 / 1024} MiB`, {
        hint: "write larger files with useOctetStream: true, or from a stream",
      });
    }
    parts.push(bytes as Uint8Array<ArrayBuffer>);
  }
  try {
    const headers = { "content-type": request.headers.get("content-type")! };
    return await new Response(new Blob(parts), { headers }).formData();
  } catch (cause) {
    throw new SbxError("request.invalid", "the form cannot be read", { cause });
  }
}

function contentOf({ body, headers }: Request): ReadableStream<Uint8Array> {
  const bytes = body ?? new Response("").body!;
  return headers.get("content-encoding") === "gzip"
    ? bytes.pipeThrough(new DecompressionStream("gzip") as TransformStream<Uint8Array, Uint8Array>)
    : bytes;
}
