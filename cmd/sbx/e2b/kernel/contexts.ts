/** The server of port 49999 of a sandbox, as `@e2b/code-interpreter` calls it. */
import { z } from "zod";
import { joinBytes } from "../../../../lib/base/bytes/mod.ts";
import { ignore, SbxError } from "../../../../lib/base/error/mod.ts";
import type { Guest } from "../guest.ts";
import { type Cell, Kernel, type Language, LANGUAGES } from "./kernel.ts";

/** Port that the client calls. */
export const KERNEL_PORT = 49999;
/** Contexts of one sandbox: each is a program. */
const CONTEXTS_MAX = 32;
/** Cells of one context that wait. */
const WAITING_MAX = 64;
/** `bytes` of a request. */
const BODY_MAX = 8 * 1024 * 1024;

const Name = z.string().max(128);
const ExecuteRequest = z.strictObject({
  code: z.string(),
  context_id: Name.nullish(),
  language: Name.nullish(),
  env_vars: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/).max(128), z.string()).nullish(),
});
const ContextRequest = z.strictObject({ language: Name.nullish(), cwd: z.string().max(4096).nullish() });

/** A context as the client shows it. */
interface Shown {
  id: string;
  language: Language;
  cwd: string;
}

class Context {
  readonly shown: Shown;
  readonly #guest: Guest;
  #kernel?: Promise<Kernel>;
  /** ends its program, also one that never gets ready */
  #end = new AbortController();
  /** the last cell; cells follow each other */
  #tail: Promise<void> = Promise.resolve();
  #waiting = 0;
  #isRemoved = false;

  constructor(guest: Guest, shown: Shown) {
    this.#guest = guest;
    this.shown = shown;
  }

  /** Starts its program. @throws {SbxError} `kernel.missing`, `kernel.not_found` */
  async start(): Promise<Kernel> {
    const { id, language, cwd } = this.shown;
    const before = this.#kernel;
    const known = await before?.catch(ignore("it is started again"));
    // A cell that waited would start a program that no request can end, and a VM that is paused.
    if (this.#isRemoved) throw new SbxError("kernel.not_found", `context ${id} was removed`);
    if (this.#kernel !== before) return await this.start();
    if (known && !known.isOver) return known;
    this.#end = new AbortController();
    this.#kernel = Kernel.start(this.#guest, language, cwd, this.#end.signal);
    this.#kernel.catch(ignore("its caller has it"));
    return await this.#kernel;
  }

  /** Messages of one cell, a line each. @throws {SbxError} `e2b.too_many`, `kernel.missing` */
  async run(cell: Cell, left: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    if (this.#waiting >= WAITING_MAX) {
      throw new SbxError("e2b.too_many", `${WAITING_MAX} cells of the context wait`);
    }
    this.#waiting++;
    const before = this.#tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    try {
      await before;
      if (left.aborted) throw new SbxError("request.invalid", "the client has left while its cell waited");
      const kernel = await this.start();
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const writer = writable.getWriter();
      const gone = new AbortController();
      writer.closed.catch(() => gone.abort());
      const show = (message: Record<string, unknown>) =>
        writer.write(new TextEncoder().encode(JSON.stringify(message) + "\n")).catch(
          ignore("the client has left"),
        );
      void kernel.run(cell, show, AbortSignal.any([gone.signal, left])).finally(() => {
        this.#waiting--;
        resolve();
        void writer.close().catch(ignore("the client has left"));
      });
      return readable;
    } catch (error) {
      this.#waiting--;
      resolve();
      throw error;
    }
  }

  /** Ends its program; the next cell starts another one. */
  close(): void {
    this.#kernel = undefined;
    this.#end.abort();
  }

  /** Ends its program, and cells that wait for it. */
  remove(): void {
    this.#isRemoved = true;
    this.close();
  }
}

/** The contexts of one sandbox. The first cell of a language makes that language's own one. */
export class Contexts {
  readonly #guest: Guest;
  readonly #all = new Map<string, Context>();
  readonly #defaults = new Map<Language, Context>();

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  /** Ends all programs. */
  close(): void {
    for (const context of this.#all.values()) context.remove();
    this.#all.clear();
    this.#defaults.clear();
  }

  /** @throws {SbxError} */
  async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const [, id, action] = /^\/contexts(?:\/([^/]+)(?:\/(restart))?)?$/.exec(pathname) ?? [];
    const route = `${request.method} ${pathname.replace(id ?? "\0", ":id")}`;
    switch (route) {
      case "GET /health":
        return new Response("OK");
      case "POST /execute":
        return await this.#execute(request);
      case "GET /contexts":
        return Response.json(Array.from(this.#all.values(), ({ shown }) => shown));
      case "POST /contexts": {
        const { language, cwd } = await bodyOf(request, ContextRequest);
        return Response.json((await this.#make(languageOf(language), cwd ?? undefined)).shown);
      }
      case "DELETE /contexts/:id": {
        this.#remove(this.#find(id));
        return new Response(null, { status: 204 });
      }
      case "POST /contexts/:id/restart": {
        const context = this.#find(id);
        context.close();
        await context.start();
        return Response.json(context.shown);
      }
    }
    throw new SbxError(
      "route.not_found",
      `sbx does not serve ${route} ${action ?? ""} of the code interpreter`,
    );
  }

  async #execute(request: Request): Promise<Response> {
    const { code, context_id, language, env_vars } = await bodyOf(request, ExecuteRequest);
    if (context_id && language) {
      throw new SbxError("request.invalid", "a cell names a context or a language, and not both");
    }
    const context = context_id ? this.#find(context_id) : await this.#default(languageOf(language));
    const cell = { code, env: env_vars ?? {} };
    const headers = { "content-type": "application/x-ndjson" };
    return new Response(await context.run(cell, request.signal), { headers });
  }

  async #default(language: Language): Promise<Context> {
    const known = this.#defaults.get(language);
    if (known) return known;
    const { home } = await this.#guest.user();
    // Another request may have made it meanwhile.
    const context = this.#defaults.get(language) ?? this.#add(language, home);
    this.#defaults.set(language, context);
    return context;
  }

  async #make(language: Language, path?: string): Promise<Context> {
    const cwd = await this.#guest.resolve(path ?? "");
    const context = this.#add(language, cwd);
    try {
      await context.start();
    } catch (error) {
      this.#remove(context);
      throw error;
    }
    return context;
  }

  #add(language: Language, cwd: string): Context {
    if (this.#all.size >= CONTEXTS_MAX) {
      throw new SbxError("e2b.too_many", `a sandbox has at most ${CONTEXTS_MAX} contexts`);
    }
    const context = new Context(this.#guest, { id: crypto.randomUUID(), language, cwd });
    this.#all.set(context.shown.id, context);
    return context;
  }

  #remove(context: Context): void {
    this.#all.delete(context.shown.id);
    if (this.#defaults.get(context.shown.language) === context) this.#defaults.delete(context.shown.language);
    context.remove();
  }

  #find(id: string): Context {
    const found = this.#all.get(id);
    if (found) return found;
    throw new SbxError("kernel.not_found", `the sandbox has no context ${id}`);
  }
}

function languageOf(name: string | null | undefined): Language {
  const language = (name ?? "python").toLowerCase();
  if (Object.hasOwn(LANGUAGES, language)) return language as Language;
  throw new SbxError("kernel.missing", `sbx runs no cells of ${language}`, {
    hint: `use one of ${Object.keys(LANGUAGES).join(", ")}`,
  });
}

async function bodyOf<S extends z.ZodType>({ body }: Request, schema: S): Promise<z.infer<S>> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of body ?? []) {
    size += bytes.length;
    if (size > BODY_MAX) throw new SbxError("request.too_large", "the body is larger than 8 MiB");
    pieces.push(bytes);
  }
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(joinBytes(pieces)));
  } catch (cause) {
    throw new SbxError("request.invalid", "the body is not JSON", { cause });
  }
  const { data, error } = schema.safeParse(json);
  if (data) return data;
  const [{ path, message }] = error!.issues;
  throw new SbxError("request.invalid", `${path.join(".")}: ${message}`);
}
