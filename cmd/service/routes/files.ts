import type { Hono } from "hono";
import { fileRoutes } from "../../../lib/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import {
  awaitFile,
  dotEnvWithoutSecrets,
  isDotEnv,
  type Supervisor,
  type Vm,
} from "../../../lib/service/mod.ts";
import { relativePath, Workspace } from "../../../lib/service/workspace/mod.ts";
import { handle, readBody } from "../handle.ts";

/** Routes of the files in a VM's workspace, whether it runs or not. */
export function routeFiles(app: Hono, home: Home, supervisor: Supervisor): void {
  handle(app, fileRoutes.read, async ({ params, query }) => {
    const { file, size, allocated } = await workspaceOf(supervisor.find(params.id), query.path).open(
      query.path,
    );
    return new Response(file.readable, {
      headers: {
        "content-type": "application/octet-stream",
        "content-length": String(size),
        "sbx-allocated-bytes": String(allocated),
      },
    });
  });
  handle(app, fileRoutes.write, async ({ params, query, context }) => {
    const vm = supervisor.find(params.id);
    if (query.type === "directory") return await makeFolder(vm, query, context.req.raw);
    if (query.type === "symlink") return await makeLink(vm, query, context.req.raw);
    const { body, captured } = await contentOf(home, vm, query.path, context.req.raw);
    const mode = query.mode === undefined ? undefined : parseInt(query.mode, 8);
    const size = await workspaceOf(vm, query.path).write(query.path, body, mode);
    await awaitFile(vm, query.path, size);
    return { path: relativePath(query.path), size, ...(captured > 0 && { captured }) };
  });
  handle(
    app,
    fileRoutes.list,
    ({ params, query: { path, depth, cursor } }) =>
      workspaceOf(supervisor.find(params.id), path).list(path, depth, cursor),
  );
}

/** @throws {SbxError} `file.invalid`: the path is in a folder of this host that the VM has in its workspace */
function workspaceOf({ paths, record: { live } }: Vm, path: string): Workspace {
  if (live && relativePath(path).split("/")[0] === live.name) {
    throw new SbxError("file.invalid", `"${path}" is of the folder "${live.dir}" of this host`, {
      hint: "copy from there, or to there",
    });
  }
  return new Workspace(paths.workspace);
}

/** Content of a file to write; the guest gets refs in place of the secrets of a `.env` file (docs/contracts.md §9). */
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

async function makeFolder(vm: Vm, { path, mode }: { path: string; mode?: string }, request: Request) {
  if (mode !== undefined || await hasBytes(request)) {
    throw new SbxError("request.invalid", "a folder is made without a body and without a mode");
  }
  await workspaceOf(vm, path).makeFolder(path);
  return { path: relativePath(path), size: 0 };
}

async function makeLink(vm: Vm, { path, mode }: { path: string; mode?: string }, request: Request) {
  if (mode !== undefined) throw new SbxError("request.invalid", "a link is made without a mode");
  const target = new TextDecoder().decode(await readBody(request));
  await workspaceOf(vm, path).makeLink(path, target);
  return { path: relativePath(path), size: 0 };
}

async function hasBytes({ body }: Request): Promise<boolean> {
  for await (const chunk of body ?? []) if (chunk.length > 0) return true;
  return false;
}
