/** The bridge of sbx-mcp-server: lines on one side, frames on the other. */
import { assertEquals, assertRejects } from "@std/assert";
import { bridge, MESSAGE_LIMIT, readLines } from "../../../../cmd/guest/mcp_server/bridge.ts";
import { FrameChannel } from "../../../../lib/base/wire/mod.ts";
import { runChild } from "../../../helper/child.ts";
import { fromRoot } from "../../../helper/repo.ts";
import type { Parsed } from "../../../helper/json.ts";

/** A source that returns `text` in pieces of at most `step` bytes. */
function source(text: string, step = Infinity) {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return {
    read(into: Uint8Array): Promise<number | null> {
      if (at === bytes.length) return Promise.resolve(null);
      const part = bytes.subarray(at, at + Math.min(step, into.length));
      into.set(part);
      at += part.length;
      return Promise.resolve(part.length);
    },
  };
}

Deno.test("lines are complete however the bytes are cut; an overlong one is skipped", async () => {
  const text = `{"a":"é"}\n\n${"x".repeat(40)}\nb\r\n${"y".repeat(31)}\nlast`;
  for (const step of [1, 2, 7, 32, Infinity]) {
    const read = await Array.fromAsync(
      readLines(source(text, step), 32),
      (line) => line && new TextDecoder().decode(line),
    );
    assertEquals(read, ['{"a":"é"}', "", undefined, "b\r", "y".repeat(31), "last"], `${step}`);
  }
  assertEquals(await Array.fromAsync(readLines(source(""), 32)), []);
});

/** Both ends of a Unix socket. */
async function connected(): Promise<[Deno.Conn, Deno.Conn]> {
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  const [near, far] = await Promise.all([
    Deno.connect({ transport: "unix", path: `${dir}/s` }),
    listener.accept(),
  ]);
  await Deno.remove(dir, { recursive: true });
  return [near, far];
}

/** Runs a bridge over `input`; `host` is the other end of its frames. */
async function run(input: string, host: (channel: FrameChannel) => Promise<void>): Promise<string[]> {
  const [near, far] = await connected();
  const decoder = new TextDecoder();
  let printed = "";
  // Accepts a few bytes at a time, like a full pipe.
  const output = {
    write(bytes: Uint8Array) {
      const part = bytes.subarray(0, 5);
      printed += decoder.decode(part, { stream: true });
      return Promise.resolve(part.length);
    },
  };
  const channel = new FrameChannel(far);
  const hosted = host(channel).finally(() => channel.close());
  const frames = new FrameChannel(near, MESSAGE_LIMIT);
  try {
    await bridge({ input: source(input), output, channel: frames, processName: "claude" });
  } finally {
    frames.close();
    await hosted;
  }
  return printed.split("\n").slice(0, -1);
}

Deno.test("the bridge sends Hello, passes messages both ways, and waits for the last answer", async () => {
  const seen: unknown[] = [];
  const printed = await run('{"id":1}\n  \n{"text":"é\\n"}\r\n{"id":2}', async (host) => {
    for (let frame: Parsed = await host.next(); frame.t !== "End"; frame = await host.next()) {
      seen.push(frame);
    }
    await host.send({ answer: "ü\n" });
    await host.send([1]);
    await host.send({ t: "End" });
  });
  assertEquals(seen, [{ t: "Hello", process_name: "claude" }, { id: 1 }, { text: "é\n" }, { id: 2 }]);
  assertEquals(printed, ['{"answer":"ü\\n"}', "[1]"]);
});

Deno.test("the bridge itself answers messages that do not fit a frame", async () => {
  const long = JSON.stringify({ id: 5, text: "x".repeat(MESSAGE_LIMIT) });
  // Fits a line as text, but not a frame as JSON.
  const grows = `{"id":6,"numbers":[${new Array(150_000).fill("1e20").join(",")}]}`;
  const printed = await run(`nonsense\n${long}\n${grows}\n{"id":7}\n`, async (host) => {
    assertEquals(await host.next(), { t: "Hello", process_name: "claude" });
    assertEquals(await host.next(), { id: 7 });
    assertEquals(await host.next(), { t: "End" });
    await host.send({ t: "End" });
  });
  const answers = printed.map((line) => JSON.parse(line)).map(({ id, error }) => [id, error.code]);
  assertEquals(answers, [[null, -32700], [null, -32600], [6, -32600]]);
});

Deno.test("a host that closes ends the bridge with an error", async () => {
  await assertRejects(
    () => run('{"id":1}\n', async (host) => void await host.next()),
    Error,
  );
});

/** A client that writes lines as the test says, and what it was told. */
class Client {
  readonly told: Parsed[] = [];
  #rest = "";
  #lines: string[] = [];
  #wake = Promise.withResolvers<void>();
  #isOver = false;

  say(message: unknown): void {
    this.#lines.push(`${JSON.stringify(message)}\n`);
    this.#wake.resolve();
  }

  leave(): void {
    this.#isOver = true;
    this.#wake.resolve();
  }

  readonly input = {
    read: async (into: Uint8Array): Promise<number | null> => {
      while (this.#lines.length === 0) {
        if (this.#isOver) return null;
        await this.#wake.promise;
        this.#wake = Promise.withResolvers();
      }
      return new TextEncoder().encodeInto(this.#lines.shift()!, into).written;
    },
  };

  readonly output = {
    write: (bytes: Uint8Array): Promise<number> => {
      const lines = (this.#rest + new TextDecoder().decode(bytes)).split("\n");
      this.#rest = lines.pop()!;
      this.told.push(...lines.map((line) => JSON.parse(line)));
      return Promise.resolve(bytes.length);
    },
  };
}

Deno.test("a session outlives its connection: it is begun again, and calls under way get an error", async () => {
  const client = new Client();
  const [first, second] = [await connected(), await connected()];
  const limited = (conn: Deno.Conn) => new FrameChannel(conn, MESSAGE_LIMIT);
  const running = bridge({
    ...client,
    channel: limited(first[0]),
    reconnect: () => Promise.resolve(limited(second[0])),
    processName: "claude",
  });
  const initialize = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: "x" } };
  const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };
  const host = new FrameChannel(first[1]);
  const next = async (channel: FrameChannel): Promise<Parsed> => await channel.next();
  client.say(initialize);
  assertEquals(await next(host), { t: "Hello", process_name: "claude" });
  assertEquals(await next(host), initialize);
  await host.send({ jsonrpc: "2.0", id: 0, result: { name: "first" } });
  client.say(initialized);
  assertEquals(await next(host), initialized);
  await host.send({ jsonrpc: "2.0", id: "roots", method: "roots/list" });
  client.say({ jsonrpc: "2.0", id: 1, method: "tools/call" });
  assertEquals((await next(host)).id, 1);
  host.close();

  const again = new FrameChannel(second[1]);
  assertEquals(await next(again), { t: "Hello", process_name: "claude" });
  assertEquals(await next(again), initialize);
  client.say({ jsonrpc: "2.0", id: "roots", result: {} });
  client.say({ jsonrpc: "2.0", id: 2, method: "tools/list" });
  await again.send({ jsonrpc: "2.0", id: 0, result: { name: "second" } });
  assertEquals(await next(again), initialized);
  assertEquals((await next(again)).id, 2, "an answer to a question of the first connection is dropped");
  await again.send({ jsonrpc: "2.0", id: 2, result: {} });
  client.leave();
  assertEquals(await next(again), { t: "End" });
  await again.send({ t: "End" });
  await running;
  again.close();
  assertEquals(
    client.told.map(({ id, method, error, result }) => [id, method ?? error?.code ?? result]),
    [
      [0, { name: "first" }],
      ["roots", "roots/list"],
      [1, -32000],
      [undefined, "notifications/tools/list_changed"],
      [2, {}],
    ],
  );
});

Deno.test("a beginning that was not answered is repeated, and its answer passed on", async () => {
  const client = new Client();
  const [first, second] = [await connected(), await connected()];
  const running = bridge({
    ...client,
    channel: new FrameChannel(first[0], MESSAGE_LIMIT),
    reconnect: () => Promise.resolve(new FrameChannel(second[0], MESSAGE_LIMIT)),
    processName: "claude",
  });
  client.say({ id: 0, method: "initialize" });
  const host = new FrameChannel(first[1]);
  for (const _ of ["Hello", "initialize"]) await host.next();
  host.close();
  const again = new FrameChannel(second[1]);
  for (const _ of ["Hello", "initialize"]) await again.next();
  await again.send({ id: 0, result: "second" });
  client.leave();
  assertEquals(await again.next(), { t: "End" });
  await again.send({ t: "End" });
  await running;
  again.close();
  assertEquals(client.told, [{ id: 0, result: "second" }]);
});

Deno.test("a host that ends every connection without a word is given up", async () => {
  const client = new Client();
  let connections = 0;
  const closed = async () => {
    connections++;
    const [near, far] = await connected();
    far.close();
    return new FrameChannel(near, MESSAGE_LIMIT);
  };
  const options = { ...client, channel: await closed(), reconnect: closed, processName: "claude" };
  await assertRejects(() => bridge(options), Error, "the host closed the connection");
  assertEquals(connections, 4);
  client.leave();
});

Deno.test("sbx-mcp-server: without an endpoint it reports that on stderr and writes nothing to stdout", async () => {
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await runChild(Deno.execPath(), {
      // No permission to open a socket: keeps the test off the machine's own vsock.
      args: [
        "run",
        "--no-prompt",
        "--quiet",
        "--unstable-vsock",
        fromRoot("cmd/guest/mcp_server/main.ts"),
        ...args,
      ],
    });
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, stdout: text(stdout), stderr: text(stderr) };
  };
  const missing = await run();
  assertEquals([missing.code, missing.stdout], [1, ""]);
  assertEquals(
    missing.stderr.split("\n")[0],
    "sbx-mcp-server: the host has no MCP endpoint for this VM (vsock port 5002)",
  );
  const [help, wrong] = [await run("--help"), await run("--port")];
  assertEquals([help.code, help.stdout.split("\n")[0], help.stderr], [0, "sbx-mcp-server", ""]);
  assertEquals([wrong.code, wrong.stderr.split("\n")[0]], [1, "sbx-mcp-server: unknown argument --port"]);
});
