/**
 * A stored secret that the provider's own host sends back: the guest gets the
 * ref, and no record has the secret.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { gzipSync } from "node:zlib";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { added, KEY, type World, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { type RawClient, rawUpstream } from "../../helper/net_client.ts";

const OWNER = "api.anthropic.com";
const SECRET = KEY.anthropic;
const HALF = SECRET.length / 2 | 0;

/** A guest whose provider answers as a test says. */
class Attack implements AsyncDisposable {
  readonly heads: string[] = [];

  private constructor(
    readonly net: TestNet,
    readonly broker: CredentialBroker,
    readonly ref: string,
    readonly close: () => void,
  ) {}

  /** @param answer bytes for a request, by its head */
  static async open(
    { open, refs }: World,
    answer: (head: string, client: RawClient) => Promise<void>,
  ): Promise<Attack> {
    let target = { hostname: "", port: 0 };
    const broker = await open();
    const net = await TestNet.open({ target: () => target, broker });
    const upstream = rawUpstream(async (client) => {
      while (true) {
        const head = await client.until("\r\n\r\n");
        attack.heads.push(head);
        await answer(head, client);
      }
    }, await net.leaf(OWNER));
    target = upstream.target;
    const attack = new Attack(net, broker, refs.anthropic, upstream.close);
    return attack;
  }

  /** Sends a request; the bytes that the guest gets until its connection closes. */
  async ask(fields = "", path = "/v1/x"): Promise<string> {
    const client = await this.net.tls(OWNER);
    await client.send(
      `GET ${path} HTTP/1.1\r\nHost: ${OWNER}\r\nTE: trailers\r\nConnection: close, te\r\n${fields}\r\n`,
    );
    const got = await client.rest();
    client.close();
    return got;
  }

  /** Sends a request with the key. */
  use(fields = "", path?: string): Promise<string> {
    return this.ask(`X-Api-Key: ${this.ref}\r\n${fields}`, path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    assert(
      !JSON.stringify(this.net.gate.entries).toLowerCase().includes(SECRET.toLowerCase()),
      "the record has the secret",
    );
    this.close();
    await this.net[Symbol.asyncDispose]();
  }
}

/** Fails when text has the secret, or a half of it. */
function assertClean(text: string): void {
  const lower = text.toLowerCase();
  for (const part of [SECRET, SECRET.slice(0, HALF), SECRET.slice(HALF)]) {
    assert(!lower.includes(part.toLowerCase()), text);
  }
}

const whole = (body: string, fields = "") =>
  `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${fields}\r\n${body}`;

Deno.test(
  "headers, their names, trailers and theirs: in the answer to the key, and in every later one",
  world(added, async (made) => {
    await using attack = await Attack.open(made, (_, client) =>
      client.send(
        `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-echo: ${SECRET}\r\n${SECRET}: 1\r\n` +
          `content-type: text/plain; k=${SECRET}\r\nx-hex: ${Buffer.from(SECRET).toString("hex")}\r\n\r\n` +
          `2\r\nok\r\n0\r\nx-trailer: ${SECRET}\r\n${SECRET}: 2\r\n\r\n`,
      ));
    for (const got of [await attack.use(), await attack.ask(), await attack.ask("", "/other")]) {
      assertClean(got);
      assert(!got.includes(Buffer.from(SECRET).toString("hex")), got);
      assertStringIncludes(got, `x-echo: ${attack.ref}`);
      assertStringIncludes(got, `x-trailer: ${attack.ref}`);
    }
  }),
);

Deno.test(
  "no range splits it: requests lose theirs, and a part that comes anyway is not passed on",
  world(added, async (made) => {
    await using attack = await Attack.open(made, (head, client) => {
      if (head.includes("/forced")) {
        return client.send(
          `HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-${HALF - 1}/${SECRET.length}\r\n` +
            `content-length: ${HALF}\r\n\r\n${SECRET.slice(0, HALF)}`,
        );
      }
      return client.send(head.includes("range") ? whole(SECRET.slice(0, HALF)) : whole(SECRET));
    });
    for (const fields of ["Range: bytes=0-53\r\n", `Range: bytes=54-\r\nIf-Range: "x"\r\n`]) {
      assertStringIncludes(await attack.use(fields), attack.ref);
      assertStringIncludes(await attack.ask(fields), attack.ref);
    }
    assert(!/range/i.test(attack.heads.join("")), attack.heads.join(""));
    const forced = await attack.ask("", "/forced");
    assertClean(forced);
    assertStringIncludes(forced, " 502 ");
  }),
);

Deno.test(
  "a stream that was open before the key was first used",
  world(added, async (made) => {
    const streams: RawClient[] = [];
    await using attack = await Attack.open(made, async (head, client) => {
      if (head.includes("x-api-key")) return await client.send(whole("ok"));
      streams.push(client);
      const length = 100_000;
      await client.send(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\nbefore `);
      await used.promise;
      await client.send(`${SECRET} ${btoa(SECRET)}`.padEnd(length - 7, "."));
    });
    const used = Promise.withResolvers<void>();
    const client = await attack.net.tls(OWNER);
    await client.send(`GET /stream HTTP/1.1\r\nHost: ${OWNER}\r\n\r\n`);
    await client.until("before ");
    await attack.use();
    used.resolve();
    const got = await client.take(100_000 - 7);
    assertClean(got);
    assert(!got.includes(btoa(SECRET).slice(0, 40)), got);
    client.close();
  }),
);

Deno.test(
  "an encoded stream that was open before ends when the key is used",
  world(added, async (made) => {
    await using attack = await Attack.open(made, async (head, client) => {
      if (head.includes("x-api-key")) return await client.send(whole("ok"));
      assert(head.includes("accept-encoding: identity"), head);
      const bytes = gzipSync(`${SECRET} ${"x".repeat(1000)}`);
      await client.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n");
      await client.send("2\r\n\x1f\x08\r\n");
      await used.promise;
      await client.send(`${bytes.length.toString(16)}\r\n`);
      await client.send(bytes);
      await client.send("\r\n0\r\n\r\n");
    });
    const used = Promise.withResolvers<void>();
    const client = await attack.net.tls(OWNER);
    await client.send(`GET /stream HTTP/1.1\r\nHost: ${OWNER}\r\nAccept-Encoding: gzip\r\n\r\n`);
    await client.until("\r\n\r\n");
    await attack.use();
    used.resolve();
    const got = await client.rest();
    assert(!got.endsWith("0\r\n\r\n") && got.length < 100, got);
    client.close();
  }),
);

const CALL = "application/grpc";

/** A message of gRPC. */
function message(text: string, flag = 0): Uint8Array {
  const bytes = Buffer.concat([new Uint8Array(5), Buffer.from(text, "latin1")]);
  bytes[0] = flag;
  bytes.writeUInt32BE(text.length, 1);
  return bytes;
}

Deno.test(
  "a call of gRPC that was open before the key was first used; its messages keep their length",
  world(added, async (made) => {
    await using attack = await Attack.open(made, async (head, client) => {
      if (head.includes("x-api-key")) return await client.send(whole("ok"));
      await client.send(`HTTP/1.1 200 OK\r\ncontent-type: ${CALL}\r\ntransfer-encoding: chunked\r\n\r\n`);
      await client.send("1\r\n");
      await client.send(message("before").subarray(0, 1));
      await client.send("\r\na\r\n");
      await client.send(message("before").subarray(1));
      await client.send("\r\n");
      await used.promise;
      const bytes = message(SECRET);
      await client.send(`${bytes.length.toString(16)}\r\n`);
      await client.send(bytes);
      await client.send("\r\n0\r\n\r\n");
    });
    const used = Promise.withResolvers<void>();
    const client = await attack.net.tls(OWNER);
    await client.send(
      `POST /a.B/C HTTP/1.1\r\nHost: ${OWNER}\r\nContent-Type: ${CALL}\r\nContent-Length: 0\r\n` +
        "Connection: close\r\n\r\n",
    );
    await client.until("before");
    await attack.use();
    used.resolve();
    const got = await client.rest();
    assertClean(got);
    assertStringIncludes(got, "credential-withheld");
    assertStringIncludes(got, `\r\n${message(SECRET).length.toString(16)}\r\n`);
    client.close();
  }),
);

Deno.test(
  "a message of gRPC that is cut off within the beginning of the key",
  world(added, async (made) => {
    await using attack = await Attack.open(made, async (head, client) => {
      if (head.includes("x-api-key")) return await client.send(whole("ok"));
      const bytes = message(`first ${SECRET}`).subarray(0, -4);
      await client.send(
        `HTTP/1.1 200 OK\r\ncontent-type: ${CALL}\r\ncontent-length: ${bytes.length}\r\n\r\n`,
      );
      await client.send(bytes);
    });
    await attack.use();
    const client = await attack.net.tls(OWNER);
    await client.send(
      `POST /a.B/C HTTP/1.1\r\nHost: ${OWNER}\r\nContent-Type: ${CALL}\r\nContent-Length: 0\r\n\r\n`,
    );
    const { body } = await client.answer("POST");
    assertClean(body);
    assertEquals([body.slice(5, 11), body.length], ["first ", message(`first ${SECRET}`).length - 4]);
    client.close();
  }),
);

Deno.test(
  "compressed messages of gRPC are not asked for, and none passes where a key was sent",
  world(added, async (made) => {
    await using attack = await Attack.open(made, async (_, client) => {
      const bytes = Buffer.concat([message("first"), message(gzipSync(SECRET).toString("latin1"), 1)]);
      await client.send(
        `HTTP/1.1 200 OK\r\ncontent-type: ${CALL}\r\ngrpc-encoding: gzip\r\n` +
          `content-length: ${bytes.length}\r\n\r\n`,
      );
      await client.send(bytes);
    });
    const client = await attack.net.tls(OWNER);
    await client.send(
      `POST /a.B/C HTTP/1.1\r\nHost: ${OWNER}\r\nContent-Type: ${CALL}\r\nX-Api-Key: ${attack.ref}\r\n` +
        "Grpc-Accept-Encoding: identity, gzip\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    const got = await client.rest();
    assert(!got.includes("\x1f\x8b") && !got.endsWith("0\r\n\r\n"), got);
    assert(!/grpc-accept-encoding/i.test(attack.heads[0]), attack.heads[0]);
    client.close();
  }),
);

Deno.test(
  "an answer without a body is none, though it says it is gRPC",
  world(added, async (made) => {
    await using attack = await Attack.open(
      made,
      (_, client) => client.send(`HTTP/1.1 204 No Content\r\ncontent-type: ${CALL}\r\n\r\n`),
    );
    const client = await attack.net.tls(OWNER);
    await client.send(
      `POST /a.B/C HTTP/1.1\r\nHost: ${OWNER}\r\nContent-Type: ${CALL}\r\nX-Api-Key: ${attack.ref}\r\n` +
        "Content-Length: 0\r\nConnection: close\r\n\r\n",
    );
    const got = await client.rest();
    assert(got.endsWith("\r\n\r\n") && !/transfer-encoding|\r\n0\r\n/.test(got), got);
    client.close();
  }),
);

Deno.test(
  "a body in any form, in pieces",
  world(added, async (made) => {
    const hex = (text: string) => Buffer.from(text).toString("hex");
    const forms = [
      SECRET.replaceAll("-", "\\u002d"),
      SECRET.replaceAll("-", "%2d"),
      SECRET.replaceAll("-", "&#45;"),
      hex(SECRET).toUpperCase(),
      btoa(`x:${SECRET}`).replaceAll(/.{20}/g, "$&\r\n"),
      [...SECRET].join("\0"),
    ];
    await using attack = await Attack.open(made, async (_, client) => {
      await client.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      for (const char of forms.join(" | ")) await client.send(`1\r\n${char}\r\n`);
      await client.send("0\r\n\r\n");
    });
    await attack.use();
    const got = await attack.ask();
    const body = got.slice(got.indexOf("\r\n\r\n") + 4).replaceAll(/[0-9a-f]+\r\n([^\r]*)\r\n/g, "$1");
    assertEquals(body.split(attack.ref).length - 1, forms.length, body);
  }),
);

Deno.test(
  "a secret across the end of what is recorded leaves no half in the record",
  world(added, async (made) => {
    const body = "x".repeat(64 * 1024 - HALF) + SECRET + "y".repeat(1000);
    await using attack = await Attack.open(made, (_, client) => client.send(whole(body)));
    const client = await attack.net.tls(OWNER);
    await client.ask(
      `POST /v1/x HTTP/1.1\r\nHost: ${OWNER}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    client.close();
    assertClean(JSON.stringify(attack.net.gate.entries));
  }),
);

Deno.test(
  "the trailers of a request carry neither a ref nor a secret",
  world(added, async (made) => {
    let sent = "";
    await using attack = await Attack.open(made, async (_, client) => {
      sent = await client.until("\r\n0\r\n") + await client.until("\r\n\r\n");
      await client.send(whole("ok"));
    });
    const client = await attack.net.tls(OWNER);
    await client.send(
      `POST /v1/x HTTP/1.1\r\nHost: ${OWNER}\r\nTransfer-Encoding: chunked\r\n\r\n` +
        `2\r\nok\r\n0\r\nx-a: ${attack.ref}\r\nx-b: ${SECRET}\r\nx-c: kept\r\n\r\n`,
    );
    assertEquals((await client.answer()).status, 200);
    client.close();
    assertStringIncludes(sent, "x-c: kept");
    assert(!sent.includes("x-a") && !sent.includes("x-b"), sent);
    const denied = attack.net.gate.entries.filter(({ event }) =>
      event.credential?.substitution.location === "trailer"
    );
    assertEquals(denied.map(({ event }) => event.credential!.substitution.outcome), ["denied", "denied"]);
  }),
);
