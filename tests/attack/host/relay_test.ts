/** HTTP, and TLS for another host, in connections that a rule lets through as another protocol. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { RawClient, rawUpstream } from "../../helper/net_client.ts";
import { helloOf } from "../../helper/tls_hello.ts";

const HOST = "db.example.com";
const RULES = `
[corp.rules.no-admin]
action = "block"
match = 'http.request.path.startsWith("/admin")'
`;
const raw = (protocol?: string) =>
  `${RULES}
[profiles.rules.raw]
action = "allow"
match = 'http.request.method == "CONNECT" && http.request.scheme == "tcp"'
${protocol === undefined ? "" : `protocol = "${protocol}"`}
`;
const HEAD = `HTTP/1.1\r\nHost: ${HOST}:5432\r\n\r\n`;
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const bytes = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

interface Attack {
  /** the server's side of a connection */
  server?(upstream: RawClient): Promise<unknown>;
  /** the guest's side; what it gets is compared by its test */
  guest(client: RawClient): Promise<unknown>;
  protocol?: string;
  options?: TestNetOptions;
  port?: number;
}

/** Runs one connection. @returns what the servers got, and the rules that decided on its events */
async function attack({ server, guest, protocol, options, port = 5432 }: Attack) {
  let got = "";
  const upstream = rawUpstream(async (client, conn) => {
    const seen = new RawClient({
      read: async (into: Uint8Array) => {
        const count = await conn.read(into);
        got += String.fromCharCode(...into.subarray(0, count ?? 0));
        return count;
      },
      write: (data: Uint8Array) => conn.write(data),
      close: () => conn.close(),
    } as Deno.Conn);
    if (server) await server(seen);
    await seen.rest();
    client.close();
  });
  await using net = await TestNet.open({
    rules: raw(protocol),
    nameOf: () => HOST,
    timeouts: { silence: 20, head: 1000 },
    target: () => upstream.target,
    ...options,
  });
  const client = await net.client(port);
  await guest(client);
  client.close();
  await net.idle();
  upstream.close();
  const decided = net.gate.entries.map(({ decision }) => decision!.rule.id);
  return { got, decided, entries: net.gate.entries };
}

Deno.test("a request line over the limit is refused, wherever its path leads", async (t) => {
  for (
    const [name, line] of Object.entries({
      "in its query": `GET /admin?${"a".repeat(66 * 1024)} ${HEAD}`,
      "in its method": `${"A".repeat(66 * 1024)} /admin ${HEAD}`,
      "in the spaces in front": `${" ".repeat(66 * 1024)}GET /admin ${HEAD}`,
    })
  ) {
    await t.step(name, async () => {
      let answer = "";
      const { got, decided } = await attack({
        guest: async (client) => {
          await client.send(bytes(line)).catch(() => {});
          answer = await client.rest();
        },
      });
      assertEquals([/GET|admin/.test(got), decided.at(-1)!.startsWith("guard-")], [false, true]);
      if (name === "in its query") assertStringIncludes(answer, "HTTP/1.1 400 ");
    });
  }
});

Deno.test("a client that is silent until the relay has begun speaks HTTP under the rules", async (t) => {
  for (const [path, status, rule] of [["/admin", 403, "no-admin"], ["/open", 200, "allow-http"]] as const) {
    await t.step(path, async () => {
      const connected = Promise.withResolvers<void>();
      let first = true;
      const { got, decided } = await attack({
        server: async (upstream) => {
          connected.resolve();
          if (first) return first = false;
          await upstream.until("\r\n\r\n");
          await upstream.send(OK);
        },
        guest: async (client) => {
          await connected.promise;
          assertEquals((await client.ask(`GET ${path} ${HEAD}`)).status, status);
        },
      });
      assertEquals(decided, ["raw", rule]);
      assertEquals(got.includes("/admin"), false);
    });
  }
  await t.step("one byte at a time, and never whole", async () => {
    const connected = Promise.withResolvers<void>();
    const { got, decided } = await attack({
      server: (upstream) => Promise.resolve(connected.resolve()).then(() => upstream.rest()),
      guest: async (client) => {
        await connected.promise;
        for (const char of "GET /admin") await client.send(char);
        await client.conn.closeWrite();
        await client.rest();
      },
    });
    assertEquals([got, decided], ["", ["raw", "guard-relay"]]);
  });
});

Deno.test("a request behind other bytes does not reach its server", async (t) => {
  const cases: Record<string, string[]> = {
    "a line in front": ["SSH-2.0-x\r\n", `GET /admin ${HEAD}`],
    "a line in front, in one piece": [`x\r\nGET /admin ${HEAD}`],
    "a method that begins like git": ["0032git-upload-pack /admin\0host=x\0", " HTTP/1.1\r\n\r\n"],
    "a method that begins like git, with half of the version": [
      "0032git-upload-pack /admin HT",
      "TP/1.1\r\n\r\n",
    ],
    "NUL within the method": ["G\0ET /ad", `min ${HEAD}`],
    "a mark of Unicode in front": [`\xef\xbb\xbfGET /admin ${HEAD}`],
    "a method of any length": [`${"A".repeat(300)} /admin ${HEAD}`],
    "the line of a load balancer": [`PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /admin ${HEAD}`],
    "version 2 of that": [`\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET /admin ${HEAD}`],
    "HTTP/0.9 of any method": ["FOO /admin\r\n\r\n"],
    "a request within CONNECT": [`CONNECT ${HOST}:80 HTTP/1.1\r\nHost: ${HOST}:80\r\n\r\nGET /admin ${HEAD}`],
  };
  for (const [name, pieces] of Object.entries(cases)) {
    await t.step(name, async () => {
      const { got, decided } = await attack({
        guest: async (client) => {
          for (const piece of pieces) {
            await client.send(bytes(piece));
          }
          await client.conn.closeWrite().catch(() => {});
          await client.rest();
        },
      });
      assertEquals([/GET|HTTP\/1|FOO/.test(got), decided.at(-1)!.startsWith("guard-")], [false, true]);
    });
  }
});

Deno.test("a server that answers HTTP is no server of another protocol", async () => {
  let answer = "";
  const { decided, entries } = await attack({
    server: async (upstream) => {
      await upstream.until("\n");
      await upstream.send("HT");
      await upstream.send("TP/1.0 200 OK\r\n\r\nsecret");
    },
    guest: async (client) => {
      await client.send("odd\r\n");
      answer = await client.rest();
    },
  });
  assertEquals([answer.includes("secret"), decided], [false, ["raw", "guard-relay"]]);
  assertEquals(entries[1].event.common.labels.event_id, entries[0].event.common.event_id);
  assertStringIncludes(entries[0].outcome!.error!, "an HTTP response");
});

Deno.test("HTTP behind the greeting of a server is refused", async () => {
  const { got, decided } = await attack({
    server: (upstream) => upstream.send("220 mail\r\n"),
    guest: async (client) => {
      await client.until("\r\n");
      await client.send(`GET /admin ${HEAD}`);
      await client.rest();
    },
  });
  assertEquals([got, decided], ["", ["raw", "guard-relay"]]);
});

const SSL_REQUEST = "\0\0\0\x08\x04\xd2\x16\x2f";

/** Asks a Postgres server for TLS, and sends a ClientHello in pieces. */
async function startTls(
  name: string | undefined,
  cut: (hello: Uint8Array) => Uint8Array[],
  pipelined = false,
): Promise<{ got: string; decided: string[] }> {
  const hello = helloOf(name);
  return await attack({
    protocol: "postgres",
    server: async (upstream) => {
      await upstream.takeBytes(8);
      await upstream.send("S");
    },
    guest: async (client) => {
      const pieces = cut(hello);
      if (pipelined) {
        await client.send(Uint8Array.from([...bytes(SSL_REQUEST), ...pieces.flatMap((piece) => [...piece])]));
      } else {
        await client.send(bytes(SSL_REQUEST));
        await client.takeBytes(1);
        for (const piece of pieces) {
          await client.send(piece);
        }
      }
      await client.conn.closeWrite().catch(() => {});
      await client.rest();
    },
  });
}

Deno.test("TLS within a connection names its host", async (t) => {
  const whole = (hello: Uint8Array) => [hello];
  const cuts: [name: string, cut: (hello: Uint8Array) => Uint8Array[], pipelined?: boolean][] = [
    ["in one piece", whole],
    ["in one piece with the bytes before", whole, true],
    ["in single bytes", (hello) => [...hello].map((byte) => Uint8Array.of(byte))],
    ["in records of one byte", (hello) => [
      Uint8Array.from([...hello.subarray(5)].flatMap((byte) => [22, 3, 1, 0, 1, byte])),
    ]],
  ];
  for (const [name, cut, pipelined] of cuts) {
    await t.step(`another host: ${name}`, async () => {
      const { got, decided } = await startTls("evil.example.com", cut, pipelined);
      assertEquals([got.includes("evil"), decided], [false, ["raw", "guard-relay"]]);
    });
    await t.step(`its host: ${name}`, async () => {
      const { got, decided } = await startTls(HOST, cut, pipelined);
      assertEquals([got.length > helloOf(HOST).length, decided], [true, ["raw"]]);
    });
  }
  await t.step("no host", async () => {
    const { got, decided } = await startTls(undefined, whole);
    assertEquals([got.length > 50, decided], [true, ["raw"]]);
  });
});

Deno.test("a connection is held to the protocol of its rule, from either side", async (t) => {
  await t.step("a client of another one is not allowed", async () => {
    const { got, decided } = await attack({
      protocol: "postgres",
      guest: async (client) => {
        await client.send("SSH-2.0-OpenSSH_9\r\n");
        await client.rest();
      },
    });
    assertEquals([got, decided], ["", ["block-raw-tcp"]]);
  });
  await t.step("a client that speaks late", async () => {
    const connected = Promise.withResolvers<void>();
    const { got, decided } = await attack({
      protocol: "ssh",
      server: (upstream) => Promise.resolve(connected.resolve()).then(() => upstream.rest()),
      guest: async (client) => {
        await connected.promise;
        await client.send("*1\r\n$4\r\nPING\r\n");
        await client.rest();
      },
    });
    assertEquals([got, decided], ["", ["raw", "guard-relay"]]);
  });
  await t.step("a server", async () => {
    let answer = "";
    const { decided } = await attack({
      protocol: "ssh",
      server: (upstream) => upstream.send("220 mail\r\n").then(() => upstream.conn.close()),
      guest: async (client) => {
        await client.send("SSH-2.0-OpenSSH_9\r\n");
        answer = await client.rest();
      },
    });
    assertEquals([answer.includes("220"), decided], [false, ["raw", "guard-relay"]]);
  });
  await t.step("both as the rule says", async () => {
    const { got, decided, entries } = await attack({
      protocol: "ssh",
      server: (upstream) => upstream.send("SSH-2.0-server\r\n"),
      guest: async (client) => {
        await client.send("SSH-2.0-OpenSSH_9\r\n");
        assertEquals(await client.until("\n"), "SSH-2.0-server\r\n");
      },
    });
    assertEquals([got, decided], ["SSH-2.0-OpenSSH_9\r\n", ["raw"]]);
    assertEquals([entries[0].decision!.protocol, entries[0].event.common.labels.protocol], ["ssh", "ssh"]);
  });
  await t.step("requests are no connections", async () => {
    const { decided } = await attack({
      options: {
        rules: `
[profiles.rules.one]
action = "allow"
match = 'http.request.host == "${HOST}"'
protocol = "ssh"

[profiles.rules.rest]
action = "block"
priority = 20
match = 'http.request.host == "${HOST}"'
`,
      },
      guest: async (client) =>
        assertEquals((await client.ask(`GET / HTTP/1.1\r\nHost: ${HOST}:5432\r\n\r\n`)).status, 403),
    });
    assertEquals(decided, ["rest"]);
  });
});

Deno.test("a rule on TLS allows another protocol inside TLS, and none outside of it", async () => {
  const upstreamGot = Promise.withResolvers<string>();
  await using net = await TestNet.open({
    rules: raw("tls"),
    nameOf: () => HOST,
    target: () => upstream.target,
  });
  const upstream = rawUpstream(
    async (client) => upstreamGot.resolve(await client.until("\n")),
    await net.leaf(HOST),
  );
  const inside = await net.tls(HOST, 5432);
  await inside.send("odd protocol\n");
  assertEquals(await upstreamGot.promise, "odd protocol\n");
  inside.close();
  const outside = await net.client(5432);
  await outside.send("odd protocol\n");
  assertEquals(await outside.rest(), "");
  outside.close();
  await net.idle();
  upstream.close();
  assertEquals(
    net.gate.entries.map(({ event, decision }) => [event.common.labels.protocol, decision!.rule.id]),
    [
      ["tls", "raw"],
      ["unknown", "block-raw-tcp"],
    ],
  );
});
