/** A guest that spends a budget at a provider, behind TLS on loopback. */
import type { Cost } from "../../lib/policy/budget/mod.ts";
import { BudgetTerms } from "../../lib/policy/budget/schema.ts";
import { ModelReader } from "../../lib/network/model/mod.ts";
import { TestNet, type TestNetOptions } from "./net.ts";
import { type RawClient, type RawUpstream, rawUpstream } from "./net_client.ts";

export const ANTHROPIC = "api.anthropic.com";
export const OPENAI = "api.openai.com";
export const GOOGLE = "generativelanguage.googleapis.com";

/** A dollar for a million tokens of either kind. */
export const cost: Cost = (_, __, { input = 0, output = 0 }) => input + output;

/** A request as the upstream got it. */
export interface Received {
  line: string;
  head: string;
  body: string;
}

/** Answers one request; `undefined`: the connection stays open without a word. */
export type Answer = (request: Received, client: RawClient) => Promise<void> | string | undefined;

/** A guest under a budget, with one provider behind TLS. */
export class Spender implements AsyncDisposable {
  readonly received: Received[] = [];

  private constructor(readonly net: TestNet, readonly host: string, readonly upstream: RawUpstream) {}

  static async open(
    host: string,
    terms: object,
    answer: Answer,
    options: Partial<TestNetOptions> = {},
  ): Promise<Spender> {
    const net = await TestNet.open({
      models: new ModelReader(),
      target: () => spender.upstream.target,
      ...options,
    });
    net.gate.useBudget({ terms: { profile: BudgetTerms.parse({ on_limit: "block", ...terms }) }, cost });
    const upstream = rawUpstream(async (client) => {
      while (true) {
        const head = await client.until("\r\n\r\n");
        const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        const request = { line: head.split("\r\n")[0], head, body: await client.take(length) };
        spender.received.push(request);
        const sent = answer(request, client);
        if (typeof sent === "string") await client.send(sent);
        else await sent;
      }
    }, await net.leaf(host));
    const spender: Spender = new Spender(net, host, upstream);
    return spender;
  }

  /** Sends a request on a connection of its own. */
  async send(path: string, body: object | string | undefined, more: string[] = []): Promise<RawClient> {
    const client = await this.net.tls(this.host);
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    const length = new TextEncoder().encode(text).length;
    const fields = body === undefined ? [] : ["Content-Type: application/json", `Content-Length: ${length}`];
    const method = body === undefined ? "GET" : "POST";
    await client.send(
      [`${method} ${path} HTTP/1.1`, `Host: ${this.host}`, ...fields, ...more, "", text].join("\r\n"),
    );
    return client;
  }

  async ask(path: string, body: object | string | undefined) {
    const client = await this.send(path, body);
    const answer = await client.answer();
    client.close();
    return answer;
  }

  /** Used of the first limit. */
  get used(): number {
    return this.net.gate.budgetUses()[0].used;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.upstream.close();
    for (const conn of this.upstream.conns) {
      try {
        conn.close();
      } catch {
        // closed already
      }
    }
    await this.net[Symbol.asyncDispose]();
  }
}

export const json = (value: unknown, status = 200) => {
  const text = JSON.stringify(value);
  return `HTTP/1.1 ${status} OK\r\ncontent-type: application/json\r\ncontent-length: ${
    new TextEncoder().encode(text).length
  }\r\n\r\n${text}`;
};
export const SSE_HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
export const chunk = (text: string) => `${new TextEncoder().encode(text).length.toString(16)}\r\n${text}\r\n`;
export const event = (value: unknown) => chunk(`data: ${JSON.stringify(value)}\n\n`);
export const LAST = "0\r\n\r\n";

export const anthropicCall = (max_tokens: number, more: object = {}) => ({
  model: "claude-haiku-4-5",
  max_tokens,
  messages: [{ role: "user", content: "hi" }],
  ...more,
});
export const chatCall = (more: object = {}) => ({
  model: "gpt-5",
  messages: [{ role: "user", content: "hi" }],
  ...more,
});
