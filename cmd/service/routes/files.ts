import type { Context, Hono } from "hono";
import { fileRoutes } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import {
  dotEnvWithoutSecrets,
  type FileParts,
  isDotEnv,
  isGuestPath,
  relativePath,
  type Service,
  type Vm,
  VmFiles,
} from "../../../lib/service/mod.ts";
import { clientOf, handle, readBody, traceOf } from "../handle.ts";

/** Routes of a VM's files: of its workspace whether it runs or not, and of its guest while it runs. */
export function routeFiles(
  app: Hono,
  { home, supervisor, records }: Pick<Service, "home" | "supervisor" | "records">,
): void {
  const parts: FileParts = { ready: (...of) => supervisor.ready(...of), records };
  const filesOf = (vm: Vm, context: Context) =>
    new VmFiles(parts, vm, { client: clientOf(context), ...traceOf(context) }, context.req.raw.signal);

  handle(app, fileRoutes.read, async ({ params, query, context }) => {
    const { body, size, allocated, mode } = await filesOf(supervisor.find(params.id), context).open(
      query.path,
    );
    return new Response(body, {
      headers: {
        "content-type": "application/octet-stream",
        "content-length": String(size),
        "sbx-allocated-bytes": String(allocated),
        "sbx-mode": mode.toString(8).padStart(4, "0"),
      },
    });
  });
  handle(app, fileRoutes.write, async ({ params, query: { path, mode, type }, context }) => {
    const vm = supervisor.find(params.id);
    const files = filesOf(vm, context);
    const written = isGuestPath(path) ? path : relativePath(path);
    if (type === "directory") {
      if (mode !== undefined || await hasBytes(context.req.raw)) {
        throw new SbxError("request.invalid", "a folder is made without a body and without a mode");
      }
      await files.makeFolder(path);
      return { path: written, size: 0 };
    }
    if (type === "symlink") {
      if (mode !== undefined) throw new SbxError("request.invalid", "a link is made without a mode");
      await files.makeLink(path, new TextDecoder().decode(await readBody(context.req.raw)));
      return { path: written, size: 0 };
    }
    const { body, captured } = await contentOf(home, vm, path, context.req.raw);
    const size = await files.write(path, body, mode === undefined ? undefined : parseInt(mode, 8));
    return { path: written, size, ...(captured > 0 && { captured }) };
  });
  handle(
    app,
    fileRoutes.list,
    ({ params, query: { path = "", depth, cursor }, context }) =>
      filesOf(supervisor.find(params.id), context).list(path, depth, cursor),
  );
}

/**
 * Content of a file to write; the guest gets refs in place of the secrets of a `.env` file
 * (docs/design/contracts/09-credentials.md §9).
 */
async function contentOf(
  home: Home,
  { record }: Vm,
  path: string,
  request: Request,
): Promise<{ body: ReadableStream<Uint8Array>; captured: number }> {
  const body = request.body ?? new Response("").body!;
  if (!isDotEnv(path)) return { body, captured: 0 };
  const { file, captured } = await dotEnvWithoutSecrets(home, record.id, await readBody(request));
  return { body: ReadableStream.from([file]), captured };
}

async function hasBytes({ body }: Request): Promise<boolean> {
  for await (const chunk of body ?? []) if (chunk.length > 0) return true;
  return false;
}
