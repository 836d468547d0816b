/**
 * Both SDKs with connections that break in the middle of a call, as when the service restarts, and clients
 * that vanish in the middle of a gigabyte: by the whole service over a VM whose programs run on this machine.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import type { Parsed } from "../helper/json.ts";
import { RepositoryVm } from "../helper/repository_vm.ts";
import { eventually } from "../helper/sbx.ts";
import { Driver, LANGUAGES, SdkError } from "./driver.ts";

const MEBIBYTE = 1024 * 1024;

/** Where the answer breaks off: before its first byte, behind the first one of its body, or behind a text. */
type Place = "head" | "body" | { behind: string };

/** A way to the service that breaks one connection when it is asked to. */
class Breaker implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #serving: Promise<void>;
  #place?: Place;
  #path = "";

  constructor(port: number) {
    this.#serving = (async () => {
      const all: Promise<void>[] = [];
      for await (const client of this.#listener) {
        all.push(this.#serve(client, port).catch(() => {}));
      }
      await Promise.all(all);
    })();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Breaks the next answer, or the next one to a request whose path has this text. */
  next(place: Place, path = ""): void {
    [this.#place, this.#path] = [place, path];
  }

  get isDone(): boolean {
    return this.#place === undefined;
  }

  async #serve(client: Deno.TcpConn, port: number): Promise<void> {
    using _ = client;
    using server = await Deno.connect({ hostname: "127.0.0.1", port });
    let request = "";
    const noted = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        request = String.fromCharCode(...piece.subarray(0, 256));
        controller.enqueue(piece);
      },
    });
    // The end of the requests ends the answers too.
    const requests = client.readable.pipeThrough(noted).pipeTo(server.writable, { preventCancel: true })
      .catch(() => {});
    let head = "";
    for await (const piece of server.readable.values({ preventCancel: true })) {
      if (!request.includes(this.#path)) {
        await write(client, piece);
        continue;
      }
      if (this.#place === "head") {
        this.#place = undefined;
        return;
      }
      head += String.fromCharCode(...piece.subarray(0, 4096));
      const body = head.indexOf("\r\n\r\n") + 4;
      if (this.#place === "body" && body > 3 && head.length > body) {
        this.#place = undefined;
        const before = head.length - Math.min(piece.length, 4096);
        await write(client, piece.subarray(0, body + 1 - before));
        return;
      }
      if (typeof this.#place === "object") {
        const { behind } = this.#place;
        const at = String.fromCharCode(...piece.subarray(0, 4096)).indexOf(behind);
        if (at >= 0) {
          this.#place = undefined;
          return await write(client, piece.subarray(0, at + behind.length));
        }
      }
      await write(client, piece);
    }
    client.closeWrite();
    await requests;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}

async function write(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}

/** Calls that only read: their second try has the answer. */
const READS: [op: string, args?: Record<string, unknown>][] = [
  ["info"],
  ["status"],
  ["read_text", { path: "a.txt" }],
  ["read", { path: "a.txt" }],
  ["list_files", { path: "" }],
  ["port_list"],
  ["events", { follow: false }],
  ["pull"],
  ["costs"],
  ["why", { event: "0123456789ab" }],
];

/** Calls that change something: whether they did is not known, and they are not made twice. */
const CHANGES: [op: string, args?: Record<string, unknown>][] = [
  ["make_folder", { path: "folder" }],
  ["snapshot", { label: "one" }],
  ["undo", {}],
  ["port_open", { port: 8099 }],
  ["bring", { dir: "/no/such/folder" }],
  ["pause"],
  ["resume"],
  ["suspend"],
  ["exec", { command: ["echo", "ran"] }],
];

/** Calls that go on for a while, over WebSockets. */
const STREAMS: [op: string, args: Record<string, unknown>][] = [
  ["pipe", { command: ["echo", "shown"], bytes: 0 }],
  ["pty", {}],
];

Deno.test({
  name:
    "the SDKs: a connection that breaks in the middle of each call is a read again, or an error with a code",
  sanitizeOps: false,
  sanitizeResources: false,
  async fn(t) {
    for (const language of LANGUAGES) {
      await t.step(language, async () => {
        await using vm = await RepositoryVm.make();
        await Deno.writeTextFile(join(vm.paths.workspace, "a.txt"), "one ü");
        await using way = new Breaker(Number(new URL(vm.client.base).port));
        await using sdk = new Driver(language, {});
        const { client } = await sdk.call("connect", { host: way.url, token: "none" });
        const { vm: held } = await sdk.call("get", { client, name: "dev" });
        const outcome = async (op: string, args: Record<string, unknown> = {}): Promise<Parsed> => {
          try {
            return { value: await sdk.call(op, { vm: held, ...args }) };
          } catch (error) {
            if (!(error instanceof SdkError)) throw error;
            return { code: error.reply.code };
          }
        };
        for (const place of ["head", "body"] as const) {
          for (const [op, args] of READS) {
            const whole = await outcome(op, args);
            way.next(place);
            assertEquals(await outcome(op, args), whole, `${op}, ${place}`);
            assert(way.isDone, `${op} was broken`);
          }
          for (const [op, args] of CHANGES) {
            way.next(place);
            const code = op === "exec" && place === "body" ? "service.gone" : "gateway.unreachable";
            assertEquals(await outcome(op, args), { code }, `${op}, ${place}`);
            assert(way.isDone, `${op} was broken`);
          }
          // Bytes are sent again, since a second time writes the same.
          way.next(place);
          assertEquals(await outcome("write", { path: "b.txt", content: "two" }), { value: null });
          assertEquals(await outcome("read_text", { path: "b.txt" }), { value: "two" });
          way.next(place);
          assertEquals((await sdk.call("list", { client })).length, 1);
          // What was given out of a stream is not taken back.
          const broken = place === "body" ? { code: "gateway.unreachable" } : { value: 6 };
          way.next(place);
          assertEquals(await outcome("download", { path: "a.txt" }), broken);
          way.next(place);
          assertEquals(await outcome("upload", { path: "c.txt", mebibytes: 1 }), {
            code: "gateway.unreachable",
          });
        }
        // A program and a terminal whose connection opens, and breaks behind their first output.
        for (const [op, args] of STREAMS) {
          for (const place of ["head", "body", { behind: "shown\n" }] as const) {
            way.next(place);
            const code = place === "head" ? "gateway.unreachable" : "service.gone";
            assertEquals(await outcome(op, args), { code }, `${op}, ${JSON.stringify(place)}`);
            assert(way.isDone, `${op} was broken`);
          }
        }
        // Each event waits for one answer, whatever breaks meanwhile.
        const { handler } = await sdk.call("ask", { vm: held, answer: "allow" });
        for (const [at, path] of ["/asks", "/resolve"].entries()) {
          for (const [step, place] of (["head", "body"] as const).entries()) {
            way.next(place, path);
            await vm.ask(`ask-${at}${step}`);
            await eventually("it was answered", () => vm.answers.length > 2 * at + step && way.isDone);
          }
        }
        assertEquals(await sdk.call("ask_close", { handler }), null);
        assertEquals(vm.answers, ["allow", "allow", "allow", "allow"]);
        assertEquals(await outcome("status"), { value: "Running" });
      });
    }
  },
});

Deno.test({
  name: "the SDKs: a client that vanishes in the middle of a gigabyte that it writes leaves no byte of it",
  sanitizeOps: false,
  sanitizeResources: false,
  async fn(t) {
    for (const language of ["node", "python", "python-async"] as const) {
      await t.step(language, async () => {
        await using vm = await RepositoryVm.make();
        const sdk = new Driver(language, {});
        const { client } = await sdk.call("connect", { host: vm.client.base, token: "none" });
        const { vm: held } = await sdk.call("get", { client, name: "dev" });
        const writing = sdk.call("upload", { vm: held, path: "big", mebibytes: 1024 });
        const ended = writing.then(() => "written", (error: Error) => error.message);
        await eventually("some of it is there", async () => await sizeOf(vm.dir) > 16 * MEBIBYTE);
        await sdk.kill();
        assertMatch(await ended, /ended/);
        await eventually("nothing of it is left", async () => await sizeOf(vm.dir) < 8 * MEBIBYTE);
        const { entries } = await vm.client.json<{ entries: unknown[] }>("GET", "/vms/dev/files/list");
        assertEquals(entries, []);
      });
    }
  },
});

/** Bytes of all files below a folder. */
async function sizeOf(dir: string): Promise<number> {
  let size = 0;
  for await (const { name, isDirectory, isFile } of Deno.readDir(dir)) {
    const path = join(dir, name);
    if (isDirectory) size += await sizeOf(path).catch(() => 0);
    else if (isFile) size += (await Deno.stat(path).catch(() => ({ size: 0 }))).size;
  }
  return size;
}
