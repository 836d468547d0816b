import { join, resolve } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { INDEX_NAME } from "../release/mod.ts";
import { KEYS } from "./workspace.ts";

/** A server of one published tree. */
export interface TreeServer {
  /** of `channels.json` */
  url: string;
  finished: Promise<void>;
  close(): Promise<void>;
}

/**
 * Serves a published tree on loopback, with ranges, for trying it.
 *
 * @param port 0 takes any
 * @throws {SbxError} `release.not_found`: no published tree; `release.workspace.conflict`:
 * a workspace, which has secrets
 */
export async function serveTree(dir: string, port: number): Promise<TreeServer> {
  const root = resolve(dir);
  if (await Deno.lstat(join(root, KEYS)).then(() => true, () => false)) {
    throw new SbxError(
      "release.workspace.conflict",
      `${root} is a workspace, with the keys that sign releases`,
      {
        hint: `publish it into another folder: sbx-admin release publish ${dir} OUT`,
      },
    );
  }
  if (!await Deno.stat(join(root, INDEX_NAME)).then(({ isFile }) => isFile, () => false)) {
    throw new SbxError("release.not_found", `${root} has no ${INDEX_NAME}`, {
      hint: "sbx-admin release publish DIR OUT writes a tree that can be served",
    });
  }
  const server = Deno.serve(
    { hostname: "127.0.0.1", port, onListen: () => {} },
    (request) => answer(root, request),
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}/${INDEX_NAME}`,
    finished: server.finished,
    close: () => server.shutdown(),
  };
}

async function answer(root: string, request: Request): Promise<Response> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
  }
  const path = pathOf(root, request.url);
  const file = path === undefined ? undefined : await openFile(path);
  if (!file) return new Response("not found\n", { status: 404 });
  const { size, mtime } = await file.stat();
  const range = rangeOf(request.headers.get("range"), size);
  const headers = new Headers({ "accept-ranges": "bytes", "content-type": "application/octet-stream" });
  if (mtime) headers.set("last-modified", mtime.toUTCString());
  if (range === "unsatisfiable") {
    file.close();
    headers.set("content-range", `bytes */${size}`);
    return new Response(null, { status: 416, headers });
  }
  const { start, end } = range ?? { start: 0, end: size };
  if (range) headers.set("content-range", `bytes ${start}-${end - 1}/${size}`);
  headers.set("content-length", String(end - start));
  const status = range ? 206 : 200;
  if (request.method === "HEAD") {
    file.close();
    return new Response(null, { status, headers });
  }
  await file.seek(start, Deno.SeekMode.Start);
  return new Response(file.readable.pipeThrough(first(end - start)), { status, headers });
}

/** Path of a request below the tree; undefined for hidden files, and for paths that could lead out of it. */
function pathOf(root: string, url: string): string | undefined {
  const segments = new URL(url).pathname.slice(1).split("/");
  const isPlain = segments.every((segment) => /^[A-Za-z0-9_~+@-][A-Za-z0-9._~+@-]*$/.test(segment));
  return isPlain ? join(root, ...segments) : undefined;
}

async function openFile(path: string): Promise<Deno.FsFile | undefined> {
  const isFile = await Deno.lstat(path).then((info) => info.isFile, () => false);
  return isFile ? await Deno.open(path).catch(() => undefined) : undefined;
}

/**
 * One range of a Range header, as `[start, end)`; undefined for none, and for forms that
 * may be ignored (RFC 9110, 14.2).
 */
function rangeOf(
  header: string | null,
  size: number,
): { start: number; end: number } | "unsatisfiable" | undefined {
  const [, first, last] = header?.match(/^bytes=(\d*)-(\d*)$/) ?? [];
  if (first === undefined || first === "" && last === "") return undefined;
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size };
  }
  const start = Number(first);
  const end = last === "" ? size : Math.min(Number(last) + 1, size);
  if (last !== "" && Number(last) < start) return undefined;
  return start >= size ? "unsatisfiable" : { start, end };
}

/** Passes the first `count` bytes on, and ends. */
function first(count: number): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let left = count;
  return new TransformStream({
    transform(chunk, controller) {
      if (chunk.length > 0 && left > 0) controller.enqueue(chunk.subarray(0, left));
      left -= Math.min(left, chunk.length);
      if (left === 0) controller.terminate();
    },
  });
}
