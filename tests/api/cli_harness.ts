/** The real CLI with a gateway that it starts itself, and a small upstream in place of the service. */
import { assertEquals } from "@std/assert";
import { type Context, Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { fileURLToPath } from "node:url";
import { home } from "../../lib/base/home/mod.ts";
import { limitChild } from "../helper/child.ts";

/** A session that is too old for a list of the newest ones. */
export const OLD_SESSION = "00000000-0000-4000-8000-0000000000ff";

export const main = fileURLToPath(import.meta.resolve("../../main.ts"));

/** A home with a small upstream as its service; the CLI starts the gateway itself. */
export class Place implements AsyncDisposable {
  readonly queries: Record<string, string>[] = [];
  readonly bodies: Record<string, unknown>[] = [];
  /** ids of VMs that were stopped */
  readonly stops: string[] = [];
  readonly files = new Map<string, Uint8Array>();
  readonly home;
  #server?: Deno.HttpServer;
  readonly #isOver = Promise.withResolvers<Response>();

  private constructor(readonly dir: string, readonly answers: Readonly<Record<string, unknown>>) {
    this.home = home(new Map([["SBX_HOME", dir]]));
  }

  /** @param answers further answers of the service by path; a profile called "hangs" never has one */
  static async make(answers: Readonly<Record<string, unknown>> = {}): Promise<Place> {
    const place = new Place(await Deno.makeTempDir({ prefix: "sbx-cli-" }), answers);
    await Deno.mkdir(place.home.runDir);
    place.#server = Deno.serve({ path: place.home.serviceSocket, onListen() {} }, place.#app().fetch);
    return place;
  }

  /** Variables of a CLI of this home. */
  get env(): Record<string, string> {
    return {
      SBX_HOME: this.dir,
      SBX_RUN_DIR: this.home.runDir,
      SBX_GATEWAY_PORT: "0",
      NO_COLOR: "1",
    };
  }

  async sbx(args: string[], { stdin, env = {} }: { stdin?: string; env?: Record<string, string> } = {}) {
    const child = limitChild(new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", main, ...args],
      env: { ...this.env, ...env },
      stdin: stdin === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn());
    if (stdin !== undefined) {
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(stdin));
      await writer.close();
    }
    const { code, stdout, stderr } = await child.output();
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  }

  #app(): Hono {
    const id = "00000000-0000-4000-8000-000000000001";
    const summary = {
      id,
      name: "demo",
      profile_id: "code",
      status: "Running",
      persistent: true,
      available_actions: ["exec", "stop", "delete"],
      cpus: 2,
      ram_mb: 512,
      disk: { size_gb: 20, used_bytes: 4 * 1024 ** 3 },
    };
    const info = {
      ...summary,
      created_at: "2026-01-01T00:00:00Z",
      session_id: id,
      accelerator: "tcg",
      hypervisor: "qemu",
      features: { suspend: true, snapshots: false },
      workspace: "/host/workspace",
      logs: "/host/logs",
      boot_stages: [{ name: "kernel", ms: 12.4 }],
    };
    const event = {
      common: { timestamp_unix_ms: 0, event_type: "process.exec", actor: "host" },
      process: { activity: { operation: "exec", command: "true\x1b[2J" } },
    };
    const result = { exit_code: 7, truncated: false, duration_ms: 1, event_id: "0123456789ab" };
    const app = new Hono();
    const body = async (c: { req: { json(): Promise<Record<string, unknown>> } }) => {
      const json = await c.req.json();
      this.bodies.push(json);
      return json;
    };
    for (const [path, answer] of Object.entries(this.answers)) app.get(path, (c) => c.json(answer as object));
    app.get("/profiles/hangs/*", () => this.#isOver.promise);
    app.get("/version", (c) => c.json({}));
    app.get("/vms/list", (c) => c.json({ vms: [summary] }));
    app.post("/vms/create", async (c) => c.json({ ...summary, name: (await body(c)).name }));
    app.get("/vms/:id/status", (c) => c.json({ id, status: "Running" }));
    app.get("/vms/demo/info", (c) => c.json(info));
    app.get(`/vms/${id}/info`, (c) => c.json(info));
    app.get(
      "/vms/:id/info",
      (c) => c.json({ error: "no VM is called that", code: "vm.not_found", hint: "sbx list" }, 404),
    );
    app.get(
      "/vms/:id/logs",
      (c) =>
        c.json({
          logs: [{ name: "console.log", size_bytes: 9, truncated: false, lines: ["one", "t\x1b[31mwo"] }],
        }),
    );
    app.post("/vms/:id/stop", (c) => {
      this.stops.push(c.req.param("id"));
      return c.json({ ...summary, status: "Stopped" });
    });
    app.delete("/vms/demo/delete", (c) => c.json({ id, deleted: true }));
    app.delete("/vms/:id/delete", (c) => c.json({ error: "no VM", code: "vm.not_found" }, 404));
    app.post("/purge", async (c) => c.json({ removed: (await body(c)).all ? ["demo"] : [], kept: [] }));
    app.get("/asks", (c) => c.json({ asks: [] }));
    const past = {
      ...{
        ask_id: "ask-1",
        digest: "d",
        event_id: "0123456789ab",
        session_id: id,
        event_type: "http.request",
      },
      ...{ subject: "POST https://a.example/\x1b[2J", rule_id: "posts", reason: "r", covers: "POSTs to it" },
      ...{
        created_at: "2026-01-01T00:00:00.000Z",
        expires_at: "2026-01-01T00:01:00.000Z",
        status: "allowed",
      },
      ...{ resolved_at: "2026-01-01T00:00:05.000Z", answered_by: { user: "ann", client: "sbx" }, vm: "demo" },
      answer: { decision: "allow", scope: "minutes", minutes: 5 },
    };
    app.get("/asks/in-force", (c) => {
      const asks = [{ ...past, until: "2026-01-01T00:05:05.000Z" }];
      return c.json({ asks, unreadable: ["silent"] });
    });
    app.delete("/asks/in-force/ask-1", (c) => c.json(past));
    app.get("/asks/history", (c) => {
      this.queries.push(c.req.query());
      return c.json({ asks: [past], truncated: true, unreadable: [] });
    });
    app.get("/sessions/events/counts", (c) => {
      this.queries.push(c.req.query());
      const step = (at: number, events: number) => ({
        ...{ at_unix_ms: at * 900_000, events, denied: 1, asked: 0, families: { http: events } },
      });
      return c.json({ step: 900_000, steps: [step(0, 3), step(1, 5), step(4, 2)], unreadable: [] });
    });
    app.get(
      "/sessions/demo/events",
      (c) => c.json(c.req.query("cursor") ? { events: [event] } : { events: [event], next_cursor: "1" }),
    );
    // Of a temporary VM, none of whose events were refused.
    app.get("/sessions/:id/events", (c) => c.json({ events: [] }));
    const run = async (c: Context) => {
      const { command, stdin } = await body(c);
      if (!c.req.header("accept")?.includes("event-stream")) {
        return c.json({ stdout: "out", stderr: "", ...result, vm: info, events: [event] });
      }
      return streamSSE(c, async (stream) => {
        const send = (name: string, data: unknown) =>
          stream.writeSSE({ event: name, data: JSON.stringify(data) });
        await send("booted", info);
        await send("stdout", { data: new Uint8Array([0, 255, 10]).toBase64() });
        if (stdin) await send("stdout", { data: stdin });
        await send("stderr", { data: btoa("err\n") });
        if ((command as string[])[0] === "broken") return;
        if ((command as string[])[0] === "bad") {
          return await send("error", { error: "it broke", code: "guest.failed" });
        }
        await send("exit", result);
        await send("events", { events: [event] });
      });
    };
    app.post("/run", run);
    app.post("/vms/demo/exec", run);
    const session = {
      ...{ id: "00000000-0000-4000-8000-000000000002", name: "agent", profile_id: "code" },
      created_at: "2026-01-01T00:00:00.000Z",
      agent: "claude",
    };
    const before = { ...session, id: "00000000-0000-4000-8000-000000000001" };
    app.get("/sessions/events", (c) => {
      this.queries.push(c.req.query());
      const first = { ...event, vm: "web\x1b[2J" };
      return c.json(
        c.req.query("cursor")
          ? { events: [{ ...event, vm: "db" }], unreadable: [] }
          : { events: c.req.query("grep") ? [] : [first], unreadable: [], next_cursor: "n" },
      );
    });
    app.get("/sessions/report", (c) => {
      this.queries.push(c.req.query());
      return c.json({
        schema: "sbx.report.v1",
        generated_unix_ms: 0,
        events: 0,
        ...{ sessions: [], programs: [], asks: [], left: [], models: [], secrets: [], findings: [] },
        ...{ refused: [], hours: [], cut: [] },
      });
    });
    app.get("/sessions/findings", (c) => {
      this.queries.push(c.req.query());
      return c.json({ findings: [], truncated: false, unreadable: ["lost"] });
    });
    app.get("/sessions/list", (c) => {
      this.queries.push(c.req.query());
      const { vm } = c.req.query();
      const all = [session, before, { ...before, id: OLD_SESSION, name: "old" }];
      // Without a choice, only the newest ones.
      return c.json({
        sessions: vm === undefined ? all.slice(0, 2) : all.filter(({ id, name }) => [id, name].includes(vm)),
      });
    });
    app.delete(
      "/sessions/:id",
      (c) => c.json({ id: c.req.param("id"), name: "old", events: 3, bytes: 4096 }),
    );
    app.post("/vms/demo/files/content", async (c) => {
      const [path, bytes] = [c.req.query("path")!, new Uint8Array(await c.req.arrayBuffer())];
      this.files.set(path, bytes);
      return c.json({ path, size: bytes.length });
    });
    app.get(
      "/vms/demo/files/content",
      (c) => c.body(this.files.get(c.req.query("path")!)?.slice() ?? "evil"),
    );
    app.get("/vms/demo/files/list", (c) => this.#list(c.req.query("path") ?? ""));
    app.get("/program/demo", (c) => {
      const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
      socket.binaryType = "arraybuffer";
      let isRequested = false;
      socket.onmessage = ({ data }) => {
        if (!isRequested) {
          isRequested = true;
          this.bodies.push(JSON.parse(data));
        } else if (typeof data !== "string") {
          socket.send(new Uint8Array([1, ...new Uint8Array(data)]));
          socket.send(JSON.stringify({ taken: data.byteLength }));
        } else if (JSON.parse(data).end) {
          socket.send(JSON.stringify({ exit: result }));
          socket.close(1000);
        }
      };
      return response;
    });
    app.get("/terminal/demo", (c) => {
      const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
      socket.binaryType = "arraybuffer";
      socket.onopen = () =>
        socket.send(new TextEncoder().encode(`argv ${c.req.query("argv") ?? "none"}\r\n`));
      socket.onmessage = ({ data }) => {
        if (typeof data === "string") return socket.send(new TextEncoder().encode(`size ${data}\r\n`));
        const bytes = new Uint8Array(data);
        if (bytes.at(-1) === 4) return socket.close(1000, "ended");
        socket.send(bytes);
      };
      return response;
    });
    return app;
  }

  #list(path: string): Response {
    const entry = (name: string, type: string) => ({
      path: name,
      type,
      size: 1,
      mode: "0644",
      modified_unix_ms: 0,
    });
    if (this.files.has(path)) {
      return Response.json({ error: "a file", code: "file.invalid" }, { status: 400 });
    }
    if (path === "evil") {
      return Response.json({
        entries: [entry("evil/../../escaped", "file")],
        truncated: false,
        left_out: [],
        left_out_count: 0,
      });
    }
    if (path === "tree") {
      const entries = [
        entry("tree/sub", "directory"),
        entry("tree/link", "symlink"),
        entry("tree/sub/a", "file"),
      ];
      return Response.json({ entries, truncated: false, left_out: [], left_out_count: 0 });
    }
    const inside = [...this.files.keys()].filter((name) => path === "" || name.startsWith(`${path}/`));
    if (inside.length === 0 && path !== "") {
      return Response.json({ error: "not there", code: "file.not_found" }, { status: 404 });
    }
    return Response.json({
      entries: inside.map((name) => entry(name, "file")),
      truncated: false,
      left_out: [],
      left_out_count: 0,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    assertEquals((await this.sbx(["stop"])).code, 0);
    this.#isOver.resolve(new Response(null, { status: 503 }));
    await this.#server?.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}
