/** Requests to a model API past a rule on one model, through the real proxy. */
import { ModelReader } from "../../lib/network/model/mod.ts";
import { TestNet } from "./net.ts";
import { rawUpstream } from "./net_client.ts";

export const ANTHROPIC = "api.anthropic.com";
export const OPENAI = "api.openai.com";
export const GOOGLE = "generativelanguage.googleapis.com";
export const BLOCKED = "claude-opus-4-1";
/** Rules that block one model. */
export const RULES = `
[profiles.rules.no-opus]
action = "block"
match = 'model.request.model == "${BLOCKED}"'
`;

export const bytes = (text: string) => new TextEncoder().encode(text);
export const join = (...parts: Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));

/** Body of a call of the blocked model. */
export const call = (more: object = {}) =>
  JSON.stringify({ model: BLOCKED, max_tokens: 9, messages: [], ...more });

/** A request; by default a call of the blocked model. */
export interface Attack {
  host?: string;
  method?: string;
  path?: string;
  headers?: string[];
  body?: Uint8Array | string;
}

/** Sends one request. @returns the status, whether the upstream got it, and the last rule that decided */
export async function attack(
  rules: string,
  { host = ANTHROPIC, method = "POST", path = "/v1/messages", headers, body = call() }: Attack,
) {
  const payload = typeof body === "string" ? bytes(body) : body;
  const fields = [`Content-Length: ${payload.length}`, ...headers ?? ["Content-Type: application/json"]];
  let received = 0;
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.take(payload.length);
    received++;
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
  });
  await using net = await TestNet.open({ rules, models: new ModelReader(), target: () => upstream.target });
  const client = await net.client();
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...fields].join("\r\n");
  const head0 = bytes(`${head}\r\n\r\n`);
  const whole = new Uint8Array(head0.length + payload.length);
  whole.set(head0);
  whole.set(payload, head0.length);
  // An answer may come before the body is taken.
  const sending = client.send(whole).catch(() => {});
  const { status } = await client.answer(method);
  client.close();
  await sending;
  upstream.close();
  await net.idle();
  const calls = net.gate.entries.filter(({ event }) => event.model);
  const decision = calls.at(-1)?.decision ?? net.gate.entries.at(-1)?.decision;
  return {
    status,
    received,
    rule: decision?.rule.id,
    reason: decision?.rule.reason,
    requests: calls.map(({ event }) => event.model!.request),
  };
}

/** Body of a form, without its type. */
export const form = (fields: [head: string, value: string][]) =>
  fields.map(([head, value]) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`).join(
    "",
  ) +
  "--b--\r\n";
/** Header that gives the type of a form. */
export const FORM = ["Content-Type: multipart/form-data; boundary=b"];
