/** Protocols that rules name, by the first bytes of both sides, and the connections that they hold. */
import { assertEquals, assertThrows } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import { ClientSpoke, likeness, protocolOf, RelayWatch } from "../../../lib/network/guest/tunnel.ts";
import { sniff } from "../../../lib/network/guest/sniff.ts";
import { type Protocol, PROTOCOLS } from "../../../lib/policy/mod.ts";
import { helloOf } from "../../helper/tls_hello.ts";

const bytes = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** First bytes of clients and servers, as programs send them. */
const SAMPLES: Record<Exclude<Protocol, "tls">, { client: string[]; server: string[] }> = {
  amqp: {
    client: ["AMQP\0\0\x09\x01", "AMQP\x03\x01\0\0"],
    server: ["\x01\0\0\0\0\x01\xfc", "AMQP\x03\x01\0\0"],
  },
  git: {
    client: [
      "0032git-upload-pack /project.git\0host=example.com\0",
      "003egit-receive-pack /p.git\0host=h\0\0version=1\0",
    ],
    server: ["00fdf2a1 HEAD\0multi_ack", "000eversion 2\n"],
  },
  imap: {
    client: ["a001 CAPABILITY\r\n", "1 LOGIN a b\r\n"],
    server: ["* OK [CAPABILITY IMAP4rev1] ready\r\n"],
  },
  ldap: {
    client: ["0\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0"],
    server: ["0\x0c\x02\x01\x01\x61\x07\x0a\x01\0"],
  },
  mongodb: {
    client: [
      "\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0",
      "\x3a\x01\0\0\x07\0\0\0\0\0\0\0\xdd\x07\0\0",
    ],
    server: ["\x3a\x01\0\0\x07\0\0\0\x01\0\0\0\xdd\x07\0\0", "\x3a\x01\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0"],
  },
  mqtt: {
    client: ["\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0", "\x10\x80\x01\0\x06MQIsdp\x03"],
    server: ["\x20\x02\0\0"],
  },
  mysql: {
    client: ["\x20\0\0\x01\x85\xae\xff\0", "\xb4\0\0\x01\x8d\xa6\xff\x19"],
    server: ["\x4a\0\0\0\x0a8.0.36\0", "\x17\0\0\0\xff\x10\x04Too"],
  },
  nats: { client: ['CONNECT {"verbose":false}\r\n'], server: ['INFO {"server_id":"N"}\r\n'] },
  pop3: { client: ["USER me\r\n", "CAPA\r\n"], server: ["+OK ready\r\n"] },
  postgres: {
    client: ["\0\0\0\x08\x04\xd2\x16\x2f", "\0\0\0\x29\0\x03\0\0user\0a\0database\0b\0\0"],
    server: ["S", "N", "R\0\0\0\x17", "E\0\0\0\x5f"],
  },
  redis: {
    client: ["*1\r\n$4\r\nPING\r\n", "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"],
    server: ["+PONG\r\n", "-NOAUTH\r\n"],
  },
  smtp: {
    client: ["EHLO example.com\r\n"],
    server: ["220 mail.example.com ESMTP\r\n", "220-a\r\n220 b\r\n"],
  },
  ssh: {
    client: ["SSH-2.0-OpenSSH_9.2p1\r\n"],
    server: ["SSH-2.0-OpenSSH_9.2p1\r\n", "welcome\r\nSSH-2.0-x\r\n"],
  },
};

Deno.test("the first bytes of both sides show a protocol, and no other one that its client may speak", async (t) => {
  assertEquals([...Object.keys(SAMPLES), "tls"].toSorted(), [...PROTOCOLS]);
  for (const [name, { client, server }] of Object.entries(SAMPLES)) {
    await t.step(name, () => {
      const protocol = name as Protocol;
      for (const text of client) {
        assertEquals([sniff(bytes(text)) === "other" || name === "nats", protocolOf(bytes(text))], [
          true,
          protocol,
        ], text);
      }
      for (const [side, texts] of Object.entries({ client, server })) {
        for (const text of texts) {
          for (let count = 1; count < text.length; count++) {
            assertEquals(
              likeness(protocol, side as "client", bytes(text.slice(0, count))) === "no",
              false,
              text,
            );
          }
          assertEquals(likeness(protocol, side as "client", bytes(text)), "yes", text);
        }
      }
      for (
        const other of [
          "GET / HTTP/1.1\r\n",
          "\x16\x03\x01\x02\0\x01",
          "zz",
          "hello world, this is no protocol\r\n",
        ]
      ) {
        assertEquals(likeness(protocol, "client", bytes(other.padEnd(40, "."))), "no", other);
      }
    });
  }
  assertEquals(protocolOf(bytes("")), undefined);
  assertEquals(protocolOf(bytes("SS")), undefined);
  assertEquals(protocolOf(bytes("\xff\xfeabcdefghijklmnopqrstuvwxyz0123456789....")), "unknown");
});

/** Lets the bytes of both sides through in turn: `>` of the client, `<` of the server. */
function run(
  options: ConstructorParameters<typeof RelayWatch>[0],
  turns: [side: string, bytes: Uint8Array][],
): void {
  const watch = new RelayWatch(options);
  const waiting = { client: new Uint8Array(), server: new Uint8Array() };
  for (const [sign, more] of turns) {
    const side = sign === ">" ? "client" : "server";
    const all = Uint8Array.from([...waiting[side], ...more]);
    waiting[side] = all.slice(watch[side](all, false));
  }
  for (const side of ["client", "server"] as const) watch[side](waiting[side], true);
}

const HOSTS = ["db.example.com"];

Deno.test("a server that speaks first may be followed by a line of two words, and not by a request", () => {
  const greeting: [string, Uint8Array] = ["<", bytes('INFO {"server_id":"N"}\r\n')];
  run({ hosts: HOSTS, protocol: "nats" }, [greeting, [">", bytes('CONNECT {"verbose":false}\r\nPING\r\n')]]);
  const request = bytes("GET /admin HTTP/1.1\r\n");
  assertThrows(() => run({ hosts: HOSTS }, [greeting, [">", request]]), MessageFault, "an HTTP request");
});

Deno.test("what follows the answer of a server is its protocol's", () => {
  run({ hosts: HOSTS }, [
    [">", bytes("0032git-upload-pack /project.git\0host=example.com\0")],
    ["<", bytes("00fdf2a1 HEAD\0multi_ack\n0000")],
    [">", bytes("0032want f2a1f2a1f2a1f2a1f2a1f2a1f2a1f2a1f2a1f2a1 ofs-delta\n0000")],
  ]);
  // A mail may have a request in it.
  run({ hosts: HOSTS, protocol: "smtp" }, [
    ["<", bytes("220 mail\r\n")],
    [">", bytes("EHLO a\r\n")],
    ["<", bytes("250 mail\r\n")],
    [">", bytes("GET / HTTP/1.1\r\n")],
  ]);
});

Deno.test("bytes that may begin HTTP, TLS or a protocol wait, and no others", () => {
  const watch = new RelayWatch({ hosts: HOSTS });
  assertEquals(watch.client(bytes("GE"), false), 0);
  assertThrows(() => watch.client(bytes("GET / HTTP/1.1\r\n"), false), ClientSpoke);
  const other = new RelayWatch({ hosts: HOSTS });
  // The end of a message may look like the beginning of TLS.
  assertEquals(other.client(bytes("\0\0\0\x05\x16\x03"), false), 6);
  assertEquals(other.server(bytes("HT"), false), 0);
  assertEquals(other.server(bytes("HTM"), false), 3);
});

Deno.test("a ClientHello names the host of its connection wherever it stands in the first 64 KiB, and at each turn", () => {
  const evil = helloOf("evil.example.com");
  const good = helloOf("db.example.com");
  const first: [string, Uint8Array] = [">", bytes("\0\0\0\x08\x04\xd2\x16\x2f")];
  const answer: [string, Uint8Array] = ["<", bytes("S")];
  const bulk: [string, Uint8Array] = [">", new Uint8Array(70_000)];
  run({ hosts: HOSTS }, [first, answer, [">", good], answer, [">", helloOf()]]);
  for (let cut = 1; cut < evil.length; cut++) {
    const pieces: [string, Uint8Array][] = [[">", evil.subarray(0, cut)], [">", evil.subarray(cut)]];
    assertThrows(() => run({ hosts: HOSTS }, [first, answer, ...pieces]), MessageFault, "evil.example.com");
    assertThrows(
      () => run({ hosts: HOSTS }, [first, bulk, answer, ...pieces]),
      MessageFault,
      "evil.example.com",
    );
  }
  assertThrows(
    () => run({ hosts: HOSTS }, [first, [">", Uint8Array.from([...good, ...evil])]]),
    MessageFault,
  );
  assertThrows(
    () => run({ hosts: HOSTS }, [first, [">", evil.subarray(0, 50)]]),
    MessageFault,
    "half of a ClientHello",
  );
});

Deno.test("a connection that ends before its protocol is known has none", () => {
  assertThrows(
    () => run({ hosts: HOSTS, protocol: "mysql" }, [[">", bytes("\x20\0")]]),
    MessageFault,
    "not mysql",
  );
  assertThrows(
    () => run({ hosts: HOSTS, protocol: "postgres" }, [["<", bytes("220 x")]]),
    MessageFault,
    "of the server",
  );
});
