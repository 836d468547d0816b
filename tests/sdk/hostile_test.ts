/**
 * Both SDKs against a hostile server and careless callers: nothing is injected, sent
 * elsewhere, or shown. Needs no sbx.
 */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Driver, type Language, LANGUAGES, SdkError } from "./driver.ts";

const SECRET = "hunter2hunter2";

/** A server that notes heads of requests, and gives each the same bytes. It closes nothing. */
class RawServer implements AsyncDisposable {
  readonly heads: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections: Promise<void>[] = [];
  readonly #serving: Promise<void>;

  constructor(answer: (connection: Deno.TcpConn) => Promise<unknown>) {
    this.#serving = (async () => {
      for await (const connection of this.#listener) {
        this.#connections.push(this.#serve(connection, answer).catch(() => {}));
      }
    })();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Settles when the clients have closed all connections. */
  async closed(): Promise<void> {
    await Promise.all(this.#connections);
  }

  async #serve(
    connection: Deno.TcpConn,
    answer: (connection: Deno.TcpConn) => Promise<unknown>,
  ) {
    using _ = connection;
    const bytes = new Uint8Array(64 * 1024);
    let head = "";
    for (
      let count: number | null;
      (count = await connection.read(bytes)) !== null;
    ) {
      head += new TextDecoder("latin1").decode(bytes.subarray(0, count));
      if (!head.includes("\r\n\r\n")) continue;
      this.heads.push(head);
      head = "";
      await answer(connection);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}

/** Writes latin1 text. */
async function send(connection: Deno.TcpConn, text: string): Promise<void> {
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  for (let at = 0; at < bytes.length;) {
    at += await connection.write(bytes.subarray(at));
  }
}

function withAll(
  name: string,
  run: (sdk: Driver, fails: Fails) => Promise<void>,
): void {
  Deno.test(name, async (t) => {
    for (const language of LANGUAGES) {
      await t.step(language, () => one(language, run));
    }
  });
}

type Fails = (
  op: string,
  args: Record<string, unknown>,
) => Promise<SdkError["reply"]>;

async function one(
  language: Language,
  run: (sdk: Driver, fails: Fails) => Promise<void>,
): Promise<void> {
  await using sdk = new Driver(language, {});
  await run(
    sdk,
    async (op, args) => (await assertRejects(() => sdk.call(op, args), SdkError)).reply,
  );
}

withAll(
  "a path or token with line breaks puts no header into a request",
  async (sdk, fails) => {
    await using server = new RawServer((connection) =>
      send(connection, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    );
    const { client } = await sdk.call("connect", {
      host: server.url,
      token: SECRET,
    });
    const path = "/events HTTP/1.1\r\nx-injected: 1\r\nx-rest:";
    assertEquals(
      (await fails("socket", { client, path })).code,
      "request.invalid",
    );
    assertEquals(
      (await fails("raw", { client, method: "GET", path })).code,
      "request.invalid",
    );
    assertEquals(server.heads, []);
    const { code, message } = await fails("connect", {
      host: server.url,
      token: `${SECRET}\r\nx: y`,
    });
    assertEquals([code, message.includes(SECRET)], ["host.credential", false]);
  },
);

withAll(
  "an answer that leads to another server is not followed",
  async (sdk, fails) => {
    await using other = new RawServer(() => Promise.resolve());
    await using server = new RawServer((connection) =>
      send(
        connection,
        `HTTP/1.1 307 Go\r\nlocation: ${other.url}/version\r\ncontent-length: 0\r\n\r\n`,
      )
    );
    const { client } = await sdk.call("connect", {
      host: server.url,
      token: SECRET,
    });
    assertEquals(
      (await fails("raw", { client, method: "GET", path: "/version" })).code,
      "gateway.bad_answer",
    );
    assertEquals(
      (await fails("socket", { client, path: "/events" })).code,
      "gateway.bad_answer",
    );
    assertEquals([server.heads.length, other.heads.length], [2, 0]);
    assertMatch(
      server.heads[0],
      new RegExp(`authorization: Bearer ${SECRET}`, "i"),
    );
  },
);

withAll(
  "an error without end ends the request, and each connection is closed",
  async (sdk, fails) => {
    await using server = new RawServer(async (connection) => {
      await send(
        connection,
        "HTTP/1.1 500 Bad\r\ncontent-length: 99999999999\r\n\r\n",
      );
      await send(connection, "x".repeat(4 * 1024 * 1024));
    });
    const { client } = await sdk.call("connect", {
      host: server.url,
      token: SECRET,
    });
    const path = "/events";
    assertEquals(
      (await fails("raw", { client, method: "GET", path })).code,
      "gateway.bad_answer",
    );
    assertEquals(
      (await fails("socket", { client, path })).code,
      "gateway.bad_answer",
    );
    await server.closed();
  },
);

withAll("a pause that is not a number is ignored", async (sdk, fails) => {
  await using server = new RawServer((connection) =>
    send(
      connection,
      "HTTP/1.1 429 Wait\r\nretry-after: \xb2\r\ncontent-length: 0\r\n\r\n",
    )
  );
  const { client } = await sdk.call("connect", {
    host: server.url,
    token: SECRET,
  });
  assertEquals(
    (await fails("raw", { client, method: "GET", path: "/version" })).code,
    "gateway.bad_answer",
  );
});

withAll("the error of an address has no password of it", async (_, fails) => {
  for (const scheme of ["ftp", "http", "https", "ssh"]) {
    for (const rest of ["build.example", "build.example:port", "[::"]) {
      const { code, message, hint } = await fails("connect", {
        host: `${scheme}://ann:${SECRET}@${rest}`,
      });
      assertEquals([code, `${message} ${hint}`.includes(SECRET)], [
        "host.invalid",
        false,
      ], `${scheme} ${rest}`);
    }
  }
});
