/**
 * An aggregator in this process, with pipes and the private wire, and time limits that tests can wait for.
 */
import { serveAggregator, type Timeouts } from "../../lib/mcp/aggregator/mod.ts";
import type { AggregatorDefinition, RequestAnswerer, ServerNotice } from "../../lib/mcp/mod.ts";
import {
  type CredentialResolver,
  OutboundClient,
  OutboundServer,
  type ServerLogins,
  type StdioStarter,
} from "../../lib/mcp/outbound/mod.ts";
import type { Parsed } from "./json.ts";

type Answer = Record<string, Parsed>;

interface TestOptions {
  timeouts?: Partial<Timeouts>;
  resolve?: CredentialResolver;
  logins?: ServerLogins;
  startStdio?: StdioStarter;
  onRequest?: RequestAnswerer;
}

export class TestAggregator {
  readonly log: string[] = [];
  readonly progress: [number, unknown][] = [];
  readonly notices: ServerNotice[] = [];
  readonly outbound: OutboundServer;
  readonly #input = new TransformStream<Uint8Array, Uint8Array>();
  readonly #writer = this.#input.writable.getWriter();
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly client: OutboundClient;
  readonly #served: Promise<void>;
  #text = "";
  #id = 0;

  static async start(
    definitions: AggregatorDefinition[],
    options: TestOptions = {},
  ): Promise<TestAggregator> {
    const path = await Deno.makeTempFile({ prefix: "sbx-mcp-", suffix: ".sock" });
    await Deno.remove(path);
    using listener = Deno.listen({ transport: "unix", path });
    const [far, near] = await Promise.all([listener.accept(), Deno.connect({ transport: "unix", path })]);
    await Deno.remove(path).catch(() => {});
    return new TestAggregator(definitions, options, near, far);
  }

  private constructor(
    definitions: AggregatorDefinition[],
    { timeouts, resolve, logins, startStdio, onRequest }: TestOptions,
    near: Deno.Conn,
    far: Deno.Conn,
  ) {
    this.outbound = new OutboundServer(definitions, {
      resolve,
      logins,
      startStdio,
      onProgress: (id, progress) => this.progress.push([id, progress]),
      onRequest,
      onNotice: (notice) => this.notices.push(notice),
    });
    this.outbound.serve(far);
    this.client = new OutboundClient(near);
    const reader = this.#input.readable.getReader();
    let rest: Uint8Array = new Uint8Array(0);
    const input = {
      read: async (into: Uint8Array) => {
        if (rest.length === 0) {
          const { value, done } = await reader.read();
          if (done) return null;
          rest = value;
        }
        const count = Math.min(into.length, rest.length);
        into.set(rest.subarray(0, count));
        rest = rest.subarray(count);
        return count;
      },
    };
    this.#served = serveAggregator({
      input,
      output: { write: (bytes) => Promise.resolve(this.#take(bytes)) },
    }, {
      outbound: this.client,
      log: (line) => this.log.push(line),
      timeouts: { connect: 1000, program: 30_000, request: 1000, call: 1000, ...timeouts },
    });
    this.send(JSON.stringify(definitions));
  }

  send(line: string): void {
    this.#writer.write(new TextEncoder().encode(`${line}\n`));
  }

  request(method: string, params?: unknown): Promise<Answer> {
    const id = ++this.#id;
    const answer = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve));
    this.send(JSON.stringify({ id, method, params }));
    return answer;
  }

  call(name: string, args: Record<string, unknown> = {}): Promise<Answer> {
    return this.request("call_tool", { name, arguments: args });
  }

  async close(): Promise<void> {
    await this.#writer.close();
    await this.#served;
    this.outbound.close();
    await this.client.closed;
  }

  #take(bytes: Uint8Array): number {
    this.#text += new TextDecoder().decode(bytes);
    const lines = this.#text.split("\n");
    this.#text = lines.pop()!;
    for (const line of lines) {
      const answer = JSON.parse(line);
      this.#waiting.get(answer.id)?.(answer);
    }
    return bytes.length;
  }
}
