/** Uses of decoys that hide: every place of a request that secrets are searched for in, in every coding. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type CredentialBroker, type NewCredential, refOf } from "../../../lib/credential/mod.ts";
import { draftOf } from "../../../lib/network/dns/service.ts";
import { BUFFERED_BODY_MAX } from "../../../lib/network/limit.ts";
import { ALL, encode, KEY, world } from "../../helper/credential.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const SECRET = KEY.github;
const REF = refOf("github", SECRET);
const DECOY: NewCredential = { provider: "github", secret: SECRET, decoy: true };
const HOST = "paste.example.com";

const base64 = (text: string, before = "") => Buffer.from(before + text).toString("base64");
const percent = (text: string) =>
  Array.from(text, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`).join("");
const escaped = (text: string) =>
  Array.from(text, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/** The codings of a text, with the word of the finding. */
const CODINGS: Record<string, [code: (text: string) => string, word: string | undefined]> = {
  "as it is": [(text) => text, undefined],
  "in URL escapes": [percent, "escapes"],
  "in JSON escapes": [escaped, "escapes"],
  "in base64": [(text) => base64(text), "base64"],
  "in base64 behind one byte": [(text) => base64(text, "a"), "base64"],
  "in base64 behind two bytes": [(text) => base64(text, "ab"), "base64"],
  "in base64url": [(text) => Buffer.from(`??${text}`).toString("base64url"), "base64"],
  "in base64 of UTF-16": [(text) => Buffer.from(text, "utf16le").toString("base64"), "base64"],
  "in hex": [(text) => Buffer.from(text).toString("hex"), "hex"],
  "in URL escapes of base64": [(text) => percent(base64(text)), "base64"],
};

interface Sent {
  headers?: string[];
  target?: string;
  body?: Uint8Array;
  /** one byte a chunk */
  inChunks?: boolean;
}

/** Places of a request. */
const PLACES: Record<string, [place: string, make: (text: string) => Sent]> = {
  "a header": ["x-note", (text) => ({ headers: [`x-note: ${text}`] })],
  "a path": ["path", (text) => ({ target: `/a/${text}/b` })],
  "a query": ["query", (text) => ({ target: `/?a=1&note=${text}` })],
  "a body": ["body", (text) => ({ body: encode(`{"note": "${text}"}`) })],
  "a body in chunks of one byte": ["body", (text) => ({ body: encode(text), inChunks: true })],
};

/**
 * Sends a request.
 * @returns status, the upstream's bytes, titles of findings, and the decision on the request
 */
async function send(broker: CredentialBroker, { headers = [], target = "/", body, inChunks }: Sent) {
  let received = "";
  const upstream = rawUpstream(async (client) => {
    received += await client.until("\r\n\r\n");
    received += await client.take(Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0));
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
  });
  await using net = await TestNet.open({ target: () => upstream.target, broker });
  const client = await net.client();
  const framing = body === undefined
    ? []
    : inChunks
    ? ["Transfer-Encoding: chunked"]
    : [`Content-Length: ${body.length}`];
  const head = [`POST ${target} HTTP/1.1`, `Host: ${HOST}`, ...headers, ...framing].join("\r\n");
  const bytes = body === undefined ? new Uint8Array() : inChunks
    ? Buffer.concat(
      [...body].flatMap((byte) => [encode("1\r\n"), Uint8Array.of(byte), encode("\r\n")])
        .concat([encode("0\r\n\r\n")]),
    )
    : body;
  const sending = client.send(Buffer.concat([encode(`${head}\r\n\r\n`), bytes])).catch(() => {});
  const { status } = await client.answer();
  client.close();
  await sending;
  await net.idle();
  upstream.close();
  const titles = net.gate.notices.flatMap(({ type, payload }) =>
    type === "finding" && payload.rule_id === "credential-decoy" ? [payload.title] : []
  );
  const request = net.gate.entries.find(({ event }) => event.http);
  const rule = [request?.decision?.decision, request?.decision?.rule.id];
  return { status, received, titles, rule, records: JSON.stringify(net.gate.entries) };
}

const BLOCKED = ["block", "guard-credential"];

for (const [where, [place, make]] of Object.entries(PLACES)) {
  Deno.test(
    `a decoy in ${where}, in every coding: nothing goes out, and the finding has the place and the coding`,
    world([DECOY], async ({ open }) => {
      const broker = await open(ALL);
      for (const [how, [code, word]] of Object.entries(CODINGS)) {
        // A backslash in a path is a slash, so that JSON's escapes are no more.
        if (place === "path" && how === "in JSON escapes") continue;
        for (const text of [REF, SECRET]) {
          const what = `${text === REF ? "ref" : "secret"} ${how}`;
          const { status, received, titles, rule, records } = await send(broker, make(code(text)));
          assertEquals([status, received, rule], [403, "", BLOCKED], what);
          assertEquals(titles.length, 1, what);
          assertStringIncludes(titles[0], `a decoy credential was used: ${place}`, what);
          // A path is made canonical first, which undoes these.
          const isUndone = place === "path" && word === "escapes";
          if (word !== undefined && !isUndone) {
            assertStringIncludes(titles[0], `, in ${word}, for ${HOST}`, what);
          }
          assert(!records.includes(SECRET), what);
        }
      }
    }),
  );
}

Deno.test(
  "a decoy in the name of a header is refused, and is a finding",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const name of [Buffer.from(REF).toString("hex"), SECRET, REF.split(":")[2]]) {
      const { status, received, titles, rule } = await send(broker, { headers: [`${name}: 1`] });
      assertEquals([status, received, rule, titles.length], [403, "", BLOCKED, 1], name);
    }
  }),
);

Deno.test(
  "a decoy in a compressed body is refused, declared as one or sent as a file",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const inner = encode(`{"note": "${base64(REF)}"}`);
    const encodings: [string, Uint8Array][] = [
      ["gzip", gzipSync(inner)],
      ["deflate", deflateSync(inner)],
      ["br", brotliCompressSync(inner)],
      ["zstd", zstdCompressSync(inner)],
      ["gzip, gzip", gzipSync(gzipSync(inner))],
    ];
    for (const [encoding, body] of encodings) {
      const { status, received, titles, rule } = await send(broker, {
        headers: [`content-encoding: ${encoding}`],
        body,
      });
      assertEquals([status, received, rule], [403, "", BLOCKED], encoding);
      assertEquals(titles, [`a decoy credential was used: body, in base64, for ${HOST}`], encoding);
    }
    for (const body of [gzipSync(inner), deflateSync(inner)]) {
      const { status, received, rule } = await send(broker, { body });
      assertEquals([status, received, rule], [403, "", BLOCKED]);
    }
    const bomb = gzipSync(Buffer.concat([new Uint8Array(BUFFERED_BODY_MAX), encode(REF)]));
    const declared = await send(broker, { headers: ["content-encoding: gzip"], body: bomb });
    assertEquals([declared.status, declared.received], [403, ""]);
  }),
);

Deno.test(
  "a compressed file without a decoy goes out as it came, also where decoys are sought",
  world([DECOY], async ({ open }) => {
    const body = gzipSync(encode("nothing here"));
    const { status, received } = await send(await open(ALL), { body });
    assertEquals(status, 200);
    assertStringIncludes(received, `content-length: ${body.length}`);
  }),
);

Deno.test(
  "a decoy at the end of a body that streams is not sent, and ends the request",
  world([DECOY], async ({ open }) => {
    const received = Promise.withResolvers<string>();
    const upstream = rawUpstream(async (client) => {
      await client.until("\r\n\r\n");
      received.resolve(await client.take(BUFFERED_BODY_MAX + 1000).catch(({ message }) => message));
    });
    await using net = await TestNet.open({ target: () => upstream.target, broker: await open(ALL) });
    const client = await net.client();
    const length = BUFFERED_BODY_MAX + 1000;
    const body = Buffer.concat([
      new Uint8Array(length - 200).fill(120),
      encode(base64(REF).padEnd(200, "x")),
    ]);
    const head = `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const sending = client.send(Buffer.concat([encode(head), body])).catch(() => {});
    const got = await received.promise;
    assert(!got.includes(base64(REF).slice(8, 40)));
    client.close();
    await sending;
    await net.idle();
    const request = net.gate.entries.find(({ event }) => event.http);
    assertEquals(request?.decision?.decision, "block");
    assert(
      net.gate.notices.some(({ type, payload }) =>
        type === "finding" && JSON.stringify(payload).includes("a decoy credential was used: body, in base64")
      ),
    );
    upstream.close();
  }),
);

// Names and arguments, which no filter of the network sees.

/** Decides on an event. @returns decision, rule, and titles of findings */
async function decide(broker: CredentialBroker, draft: Parameters<TestGate["decide"]>[0]) {
  const gate = new TestGate("", { decoyIn: (event) => broker.decoyIn(event) });
  const { decision } = await gate.decide(draft);
  const titles = gate.notices.flatMap(({ type, payload }) => type === "finding" ? [payload.title] : []);
  gate.close();
  return [decision.decision, decision.rule.id, ...titles];
}

const query = (name: string) => draftOf({ name, type: "A" }, { proto: "udp", process_name: "dig" }, "vm");
const base32 = (text: string) => {
  const bits = Array.from(Buffer.from(text), (byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.match(/.{1,5}/g)!.map((five) =>
    "abcdefghijklmnopqrstuvwxyz234567"[parseInt(five.padEnd(5, "0"), 2)]
  )
    .join("");
};
const labels = (text: string, length: number) => text.match(new RegExp(`.{1,${length}}`, "g"))!.join(".");

Deno.test(
  "a decoy in the labels of a name is not resolved, whole or in pieces, in every coding that a name keeps",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const digest = REF.split(":")[2];
    const cases: [string, string][] = [
      [labels(digest, 60), "a piece"],
      [labels(digest, 7), "a piece"],
      [digest.slice(0, 16), "a piece"],
      [digest.slice(40, 64), "a piece"],
      [`seq1-${digest.slice(20, 38)}`, "a piece"],
      [SECRET.toLowerCase().slice(4, 30), "a piece"],
      [labels(Buffer.from(digest).toString("hex"), 50), "a piece of hex"],
      [Buffer.from(SECRET).toString("hex").slice(8, 50), "a piece of hex"],
      [labels(base32(REF), 63), "a piece of base32"],
      [base32(`ab${digest}`).slice(20, 60), "a piece of base32"],
      [labels(Buffer.from(digest).toString("base64url").toLowerCase(), 60), "a piece of base64"],
    ];
    for (const [text, coding] of cases) {
      assertEquals(await decide(broker, query(`${text}.evil.example`)), [
        "block",
        "guard-credential",
        `a decoy credential was used: name, in ${coding}`,
      ], text);
    }
    const other = `${"0123456789abcdef".repeat(3)}.credential.blake3.example.com`;
    assertEquals((await decide(broker, query(other)))[1] === "guard-credential", false);
  }),
);

Deno.test(
  "a decoy in the arguments of a tool is refused in every coding, and is a finding",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const [how, [code, word]] of Object.entries(CODINGS)) {
      const request = {
        method: "tools/call",
        server_name: "notes",
        tool_name: "add",
        namespaced_tool_name: "notes__add",
        arguments: { deep: [{ note: `take ${code(REF)}` }] },
      };
      const draft = {
        common: { event_type: "mcp.tool_call" as const, source_engine: "mcp" as const },
        mcp: { request },
      };
      const [decision, rule, title] = await decide(broker, draft);
      assertEquals([decision, rule], BLOCKED, how);
      assertStringIncludes(title, `arguments${word === undefined ? "" : `, in ${word}`}`, how);
      const plain = { ...draft, mcp: { request: { ...request, arguments: { note: "nothing" } } } };
      assertEquals((await decide(broker, plain))[1] === "guard-credential", false);
    }
  }),
);
