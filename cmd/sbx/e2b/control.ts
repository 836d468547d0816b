/** E2B's control API, as its client 2.51 calls it; docs/guides/e2b.md has the table. */
import { type Context, Hono } from "hono";
import { z } from "zod";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { TokenGate } from "../../../lib/client/gateway/mod.ts";
import { FORK_COUNT_MAX } from "../../../lib/client/api/mod.ts";
import { METRICS_SCRIPT, parseMetrics } from "./metrics.ts";
import { networkRules, requireFew } from "./network.ts";
import { type Sandboxes, TIMEOUT_MAX_S, TIMEOUT_S } from "./sandboxes.ts";
import { type Sandbox, type Snapshot, trafficToken } from "./store.ts";

/** Version of envd whose calls these are: the newest that the client distinguishes. */
export const ENVD_VERSION = "0.6.4";
/** Entries of one page. */
const PAGE_MAX = 100;
/** `bytes` of a request's body. */
const BODY_MAX = 1024 * 1024;
/** Pairs of a sandbox's metadata, and characters of a name and of a value. */
const METADATA_MAX = 64, TEXT_MAX = 4096;

const Text = z.string().max(TEXT_MAX);
const Seconds = z.int().min(0).max(TIMEOUT_MAX_S).default(TIMEOUT_S);
const Metadata = z.record(Text, Text).refine((pairs) => Object.keys(pairs).length <= METADATA_MAX, {
  message: `has more than ${METADATA_MAX} pairs`,
});
/** A field of E2B that sbx does not serve: its presence is refused with the reason. */
const unsupported = (reason: string) =>
  z.unknown().superRefine((value, { addIssue }) => {
    if (value !== undefined && value !== null) {
      addIssue({ code: "custom", message: reason, params: { reason } });
    }
  }).optional();

const NetworkRequest = z.strictObject({
  allowOut: z.array(Text).optional(),
  denyOut: z.array(Text).optional(),
  allowPublicTraffic: z.literal(false, "ports of a sandbox are reached with its token only").optional(),
  egressProxy: unsupported("sbx has no proxy for each VM: [proxy] of its settings is for all"),
  rules: unsupported("headers are added by sbx's credentials: docs/guides/credentials.md"),
  maskRequestHost: unsupported("the host of a request to a port is not changed"),
  httpsPorts: unsupported("ports of a sandbox are HTTP"),
});

const CreateRequest = z.strictObject({
  templateID: Text.min(1),
  timeout: Seconds,
  metadata: Metadata.default({}),
  envVars: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/).max(128), z.string().max(128 * 1024))
    .default({}),
  allow_internet_access: z.boolean().default(true),
  autoPause: z.boolean().default(false),
  autoPauseMemory: z.boolean().optional(),
  autoResume: z.strictObject({ enabled: z.boolean() }).optional(),
  secure: z.boolean().optional(),
  network: NetworkRequest.optional(),
  iam: unsupported("sbx has no workload tokens: its credentials are references (docs/guides/credentials.md)"),
  mcp: unsupported("sbx gives MCP servers to a VM by its profile: docs/guides/mcp.md"),
  volumeMounts: unsupported("sbx has no volumes: a VM keeps its disk while it is paused"),
});
const ConnectRequest = z.strictObject({ timeout: Seconds, memory: z.boolean().optional() });
const TimeoutRequest = z.strictObject({ timeout: z.int().min(0).max(TIMEOUT_MAX_S) });
const PauseRequest = z.strictObject({ memory: z.boolean().default(true) });
const ForkRequest = z.strictObject({
  timeout: Seconds,
  count: z.int().min(1).max(FORK_COUNT_MAX).default(1),
});
const SnapshotRequest = z.strictObject({ name: Text.min(1).optional() });

/** Methods of E2B that sbx refuses, with the reason. */
const REFUSED: [method: string, path: RegExp, reason: string][] = [
  [
    "PUT",
    /^\/sandboxes\/[^/]+\/network$/,
    "the rules of a running VM come from its profile: sbx profile, sbx allow",
  ],
  ["*", /^\/(v\d+\/)?templates(\/|$)/, "templates are images of this home: sbx image pull, sbx image build"],
  ["*", /^\/(v\d+\/)?volumes(\/|$)/, "sbx has no volumes: a VM keeps its disk while it is paused"],
  [
    "*",
    /^\/(v\d+\/)?secrets(\/|$)/,
    "secrets stay outside of sandboxes: sbx credentials (docs/guides/credentials.md)",
  ],
  ["*", /^\/(v\d+\/)?(teams|access-tokens|api-keys|nodes|admin)(\/|$)/, "sbx has no teams and accounts"],
];

/** The routes of E2B's control API. */
export function controlApi(sandboxes: Sandboxes, gate: TokenGate): Hono {
  const app = new Hono();
  app.use(async ({ req }, next) => {
    requireKey(gate, req.header("x-api-key"));
    await next();
  });
  for (const path of ["/sandboxes", "/v2/sandboxes"]) {
    app.post(path, async (context) => context.json(await shown(await create(sandboxes, context)), 201));
    app.get(path, (context) => list(sandboxes, context));
  }
  app.get(
    "/sandboxes/:id",
    async (context) => context.json(await detail(sandboxes, found(sandboxes, context))),
  );
  app.delete("/sandboxes/:id", async (context) => {
    await sandboxes.kill(found(sandboxes, context));
    return context.body(null, 204);
  });
  app.post("/sandboxes/:id/timeout", async (context) => {
    const { timeout } = await bodyOf(context, TimeoutRequest);
    await sandboxes.setTimeout(found(sandboxes, context), timeout);
    return context.body(null, 204);
  });
  app.post("/sandboxes/:id/pause", async (context) => {
    const { memory } = await bodyOf(context, PauseRequest);
    const wasPaused = !await sandboxes.pause(found(sandboxes, context), memory);
    if (wasPaused) return context.json(failure(409, "the sandbox is paused already"), 409);
    return context.body(null, 204);
  });
  for (const path of ["/sandboxes/:id/connect", "/v2/sandboxes/:id/connect", "/sandboxes/:id/resume"]) {
    app.post(path, async (context) => {
      const { timeout, memory } = await bodyOf(context, ConnectRequest);
      if (memory === false) {
        throw new SbxError("request.unsupported", "a paused VM resumes with its memory", {
          hint: "pause it with keepMemory: false, which stops it",
        });
      }
      return context.json(await shown(await sandboxes.connect(found(sandboxes, context), timeout)));
    });
  }
  app.post("/sandboxes/:id/fork", async (context) => {
    const { timeout, count } = await bodyOf(context, ForkRequest);
    const made = await sandboxes.fork(found(sandboxes, context), count, timeout);
    return context.json(
      await Promise.all(made.map(async (sandbox) => ({ sandbox: await shown(sandbox) }))),
      201,
    );
  });
  app.get("/sandboxes/:id/metrics", async (context) => {
    const sandbox = await sandboxes.awake(found(sandboxes, context));
    const { stdout, stderr, exit_code } = await sandboxes.envd(sandbox).guest.run(METRICS_SCRIPT, []);
    if (exit_code !== 0) throw new SbxError("guest.failed", stderr.trim() || `exit code ${exit_code}`);
    return context.json([parseMetrics(stdout)]);
  });
  app.post("/sandboxes/:id/snapshots", async (context) => {
    const { name } = await bodyOf(context, SnapshotRequest);
    return context.json(shownSnapshot(await sandboxes.snapshot(found(sandboxes, context), name)), 201);
  });
  app.get("/snapshots", (context) => {
    const { sandboxID, name } = context.req.query();
    const all = sandboxes.store.snapshots().filter(({ sandbox, names }) =>
      (sandboxID === undefined || sandbox === sandboxID) && (name === undefined || names.includes(name))
    );
    return page(context, all.toReversed().map((each) => [each.id, shownSnapshot(each)]));
  });
  app.delete("/templates/:id", async (context) => {
    const snapshot = sandboxes.store.snapshot(context.req.param("id"));
    if (!snapshot) return context.json(failure(404, "no snapshot has this id"), 404);
    await sandboxes.removeSnapshot(snapshot);
    return context.body(null, 204);
  });
  app.all("*", ({ req }) => {
    const refused = REFUSED.find(([method, path]) =>
      (method === "*" || method === req.method) && path.test(req.path)
    );
    if (refused) throw new SbxError("request.unsupported", refused[2]);
    throw new SbxError("route.not_found", `sbx does not serve ${req.method} ${req.path} of E2B`);
  });
  return app;
}

/** @throws {SbxError} as the gate, without its advice: the token of the gateway is not for programs of E2B */
function requireKey(gate: TokenGate, key: string | undefined): void {
  try {
    gate.check(key);
  } catch (cause) {
    const { code } = cause as SbxError;
    const message = code === "auth.too_many_failures"
      ? "too many invalid API keys in the last minute"
      : "the request has no API key of the running sbx e2b";
    throw new SbxError(code, message, { cause, hint: "set E2B_API_KEY as sbx e2b printed at its start" });
  }
}

/** Body of an error as E2B's client reads it. */
export function failure(code: number, message: string): { code: number; message: string } {
  return { code, message };
}

async function create(sandboxes: Sandboxes, context: Context): Promise<Sandbox> {
  const body = await bodyOf(context, CreateRequest);
  const network = body.network ?? {};
  requireFew(network);
  return await sandboxes.create({
    template: body.templateID,
    timeout: body.timeout,
    metadata: body.metadata,
    env: body.envVars,
    on_timeout: body.autoPause ? "pause" : "kill",
    auto_resume: body.autoResume?.enabled ?? false,
    allows_internet: body.allow_internet_access,
    project: networkRules(body.allow_internet_access, network),
  });
}

function found(sandboxes: Sandboxes, { req }: Context): Sandbox {
  return sandboxes.find(req.param("id") ?? "");
}

async function shown(sandbox: Sandbox) {
  const { id, template, token } = sandbox;
  return {
    sandboxID: id,
    templateID: template,
    clientID: "sbx",
    envdVersion: ENVD_VERSION,
    envdAccessToken: token,
    trafficAccessToken: await trafficToken(sandbox),
  };
}

function shownSnapshot({ id, names }: Snapshot) {
  return { snapshotID: id, names };
}

function listed(sandbox: Sandbox, size: { cpus: number; ram_mb: number; disk: { size_gb: number } }) {
  const { id, template, metadata, started_at, ends_at, is_paused } = sandbox;
  return {
    sandboxID: id,
    templateID: template,
    clientID: "sbx",
    metadata,
    startedAt: new Date(started_at).toISOString(),
    endAt: new Date(ends_at).toISOString(),
    state: is_paused ? "paused" : "running",
    cpuCount: size.cpus,
    memoryMB: size.ram_mb,
    diskSizeMB: size.disk.size_gb * 1024,
    envdVersion: ENVD_VERSION,
  };
}

async function detail(sandboxes: Sandboxes, sandbox: Sandbox) {
  return {
    ...listed(sandbox, await sandboxes.info(sandbox)),
    allowInternetAccess: sandbox.allows_internet,
    envdAccessToken: sandbox.token,
    lifecycle: { onTimeout: sandbox.on_timeout, autoResume: sandbox.auto_resume },
  };
}

const ListQuery = z.object({
  metadata: z.string().max(TEXT_MAX * 2).optional(),
  state: z.string().regex(/^(running|paused)(,(running|paused))*$/).optional(),
  template: z.string().optional(),
  startedAfter: z.iso.datetime().optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
});

async function list(sandboxes: Sandboxes, context: Context): Promise<Response> {
  const query = parsed(ListQuery, context.req.query());
  const wanted = Array.from(new URLSearchParams(query.metadata), (pair) => pair.map(decoded));
  const states = query.state?.split(",");
  const after = query.startedAfter === undefined ? -Infinity : Date.parse(query.startedAfter);
  const vms = await sandboxes.statuses();
  const all = sandboxes.store.all().filter((sandbox) =>
    // A VM that was deleted in another way is no sandbox any more.
    vms.has(sandbox.vm) && sandbox.started_at > after &&
    (!states || states.includes(sandbox.is_paused ? "paused" : "running")) &&
    (query.template === undefined || sandbox.template === query.template) &&
    wanted.every(([name, value]) => sandbox.metadata[name] === value)
  );
  if (query.order === "desc") all.reverse();
  return page(context, all.map((sandbox) => [sandbox.id, listed(sandbox, vms.get(sandbox.vm)!)]));
}

/** The client encodes names and values before it makes a query of them. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(PAGE_MAX).default(PAGE_MAX),
  nextToken: z.string().optional(),
});

/** One page of entries, each behind its id; the next begins behind the last one. */
function page(context: Context, entries: [id: string, entry: unknown][]): Response {
  const { limit, nextToken } = parsed(PageQuery, context.req.query());
  const at = nextToken === undefined ? 0 : entries.findIndex(([id]) => id === nextToken) + 1;
  if (nextToken !== undefined && at === 0) {
    throw new SbxError("request.invalid", "nextToken names an entry that is gone", { hint: "list again" });
  }
  const shown = entries.slice(at, at + limit);
  if (at + limit < entries.length) context.header("x-next-token", shown.at(-1)![0]);
  return context.json(shown.map(([, entry]) => entry));
}

/** @throws {SbxError} `request.too_large` */
async function textOf({ body }: Request): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of body ?? []) {
    pieces.push(bytes);
    size += bytes.length;
    if (size > BODY_MAX) throw new SbxError("request.too_large", "the body is larger than 1 MiB");
  }
  return new TextDecoder().decode(joinBytes(pieces));
}

async function bodyOf<S extends z.ZodType>({ req }: Context, schema: S): Promise<z.infer<S>> {
  const text = await textOf(req.raw);
  let json: unknown;
  try {
    json = text === "" ? {} : JSON.parse(text);
  } catch (cause) {
    throw new SbxError("request.invalid", "the body is not JSON", { cause });
  }
  return parsed(schema, json);
}

function parsed<S extends z.ZodType>(schema: S, value: unknown): z.infer<S> {
  const { data, error } = schema.safeParse(value);
  if (!error) return data;
  const [{ path, message, code, ...rest }] = error.issues;
  const isUnsupported = code === "custom" && "params" in rest && "reason" in (rest.params ?? {});
  const place = path.join(".");
  throw new SbxError(
    isUnsupported ? "request.unsupported" : "request.invalid",
    place === "" ? message : `${place}: ${message}`,
  );
}
