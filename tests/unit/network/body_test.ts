/** Bodies of HTTP/1.1 messages: their framing, their pieces, their end, and what follows them. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { BufferedConnection, DeadlineWatch } from "../../../lib/network/connection.ts";
import { ConnectionLost, MessageFault } from "../../../lib/network/fault.ts";
import { CHUNK_LINE_MAX, ENCODINGS_MAX, TRAILERS_MAX } from "../../../lib/network/limit.ts";
import {
  type BodyFraming,
  type BodySource,
  keepsAlive,
  NO_BODY,
  readWhole,
  requestFraming,
  responseFraming,
  RestOfBody,
  WholeBody,
  WireBody,
} from "../../../lib/network/message/body.ts";
import { canDecode } from "../../../lib/network/message/encoding.ts";

Deno.test("a body may have so many encodings, and known ones only", () => {
  const encodings = (count: number) => Array(count).fill("gzip").join(",");
  assertEquals([canDecode(encodings(1)), canDecode(encodings(ENCODINGS_MAX))], [true, true]);
  assertEquals([canDecode(encodings(ENCODINGS_MAX + 1)), canDecode("gzip,pack")], [false, false]);
});

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Runs with a body on a connection that receives these pieces and then ends. */
async function withBody(
  framing: BodyFraming,
  pieces: string[],
  run: (body: WireBody, connection: BufferedConnection) => Promise<void>,
): Promise<void> {
  const rest = pieces.map(encode);
  const connection = new BufferedConnection({
    read: (into) => {
      const piece = rest.shift();
      if (piece === undefined) return Promise.resolve(null);
      into.set(piece.subarray(0, into.length));
      if (piece.length > into.length) rest.unshift(piece.subarray(into.length));
      return Promise.resolve(Math.min(piece.length, into.length));
    },
    write: (bytes) => Promise.resolve(bytes.length),
    close: () => {},
  }, new DeadlineWatch());
  try {
    await run(new WireBody(connection, framing, 1000), connection);
  } finally {
    connection.close();
  }
}

async function textOf(body: BodySource): Promise<string> {
  let text = "";
  for (let piece = await body.read(); piece !== null; piece = await body.read()) text += decode(piece);
  return text;
}

Deno.test("a body ends where its framing says, and the bytes behind it are left for the next message", async () => {
  const cases: [BodyFraming, string, string, [string, string][]][] = [
    [5, "hello", "hello", []],
    ["chunked", "5\r\nhello\r\n0\r\n\r\n", "hello", []],
    [
      "chunked",
      '1A ;name="x"\r\nabcdefghijklmnopqrstuvwxyz\r\n2\r\n\r\n\r\n0;x\r\n\r\n',
      "abcdefghijklmnopqrstuvwxyz\r\n",
      [],
    ],
    ["chunked", "1\r\na\r\n000\r\nX-Sum: 1\r\ny: 2\r\n\r\n", "a", [["x-sum", "1"], ["y", "2"]]],
    [0, "", "", []],
  ];
  for (const [framing, wire, text, trailers] of cases) {
    for (let cut = 0; cut <= wire.length; cut++) {
      await withBody(
        framing,
        [wire.slice(0, cut), wire.slice(cut) + "NEXT"].filter(Boolean),
        async (body, connection) => {
          assertEquals([body.length, body.done], [
            typeof framing === "number" ? framing : undefined,
            framing === 0,
          ]);
          assertEquals(await textOf(body), text, `${wire} cut at ${cut}`);
          assertEquals([body.done, await body.read()], [true, null]);
          assertEquals(body.trailers, trailers);
          if (connection.count === 0) await connection.fill();
          assertEquals(decode(connection.unread), "NEXT");
          assertEquals(connection.deadline.at, Infinity);
        },
      );
    }
  }
});

Deno.test("a body without a framing goes to the end of its connection", async () => {
  await withBody("close", ["some ", "more"], async (body) => {
    assertEquals([body.ready, body.length], [false, undefined]);
    assertEquals(await textOf(body), "some more");
    assertEquals([body.done, body.trailers], [true, []]);
  });
});

Deno.test("a body that is cut off is never taken for a whole one", async () => {
  for (
    const [framing, wire] of [
      [5, "hell"],
      ["chunked", "5\r\nhell"],
      ["chunked", "5\r\nhello"],
      ["chunked", "5\r\nhello\r"],
      ["chunked", "5\r\nhello\r\n"],
      ["chunked", "5\r\nhello\r\n0\r\n"],
      ["chunked", "5\r\nhello\r\n0\r\nx: 1\r\n"],
      ["chunked", "5"],
    ] as const
  ) {
    await withBody(framing, [wire], async (body) => {
      await assertRejects(() => textOf(body), ConnectionLost, "within a body", wire);
      assertEquals(body.done, false);
    });
  }
});

Deno.test("chunks that two readers could read differently are refused", async () => {
  for (
    const [wire, why] of [
      ["5\r\nhello0\r\n\r\n", "longer than its declared size"],
      ["5\r\nhello\r0\r\n\r\n", "longer than its declared size"],
      ["5\r\nhello\n\n0\r\n\r\n", "longer than its declared size"],
      ["5\nhello\r\n0\r\n\r\n", "bare LF"],
      ["\n", "bare LF"],
      ["0x5\r\nhello\r\n0\r\n\r\n", "invalid chunk size"],
      ["-5\r\nhello\r\n0\r\n\r\n", "invalid chunk size"],
      ["\r\n5\r\nhello", "invalid chunk size"],
      ["1234567890abc\r\n", "invalid chunk size"],
      ["5\r\nhello\r\n0\r\nno colon\r\n\r\n", ""],
    ]
  ) {
    await withBody("chunked", [wire], async (body) => {
      await assertRejects(() => textOf(body), MessageFault, why, wire);
    });
  }
});

Deno.test("the line of a chunk and the trailers have a limit, which is itself allowed", async () => {
  const line = `1;${"x".repeat(CHUNK_LINE_MAX - 3)}`;
  await withBody(
    "chunked",
    [`${line}\r\na\r\n0\r\n\r\n`],
    async (body) => assertEquals(await textOf(body), "a"),
  );
  for (const long of [`${line}xx\r\na\r\n0\r\n\r\n`, `1;${"x".repeat(CHUNK_LINE_MAX)}`]) {
    await withBody("chunked", [long], async (body) => {
      await assertRejects(() => textOf(body), MessageFault, "size line is too long");
    });
  }
  const trailer = `a: ${"x".repeat(TRAILERS_MAX - 7)}\r\n\r\n`;
  await withBody("chunked", [`0\r\n${trailer}`], async (body) => {
    assertEquals(await textOf(body), "");
    assertEquals(body.trailers[0][1].length, TRAILERS_MAX - 7);
  });
  for (const long of [`0\r\na${trailer}`, `0\r\na: ${"x".repeat(TRAILERS_MAX)}`]) {
    await withBody("chunked", [long], async (body) => {
      await assertRejects(() => textOf(body), MessageFault, "trailers are too long");
    });
  }
});

Deno.test("a body is taken whole only after all of it was received, and once", async () => {
  await withBody(5, ["hel", "loNEXT"], async (body, connection) => {
    assertEquals([body.takeWhole(), body.ready], [undefined, false]);
    await connection.fill();
    assertEquals([body.takeWhole(), body.ready, body.done], [undefined, true, false]);
    await connection.fill();
    assertEquals(decode(body.takeWhole()!), "hello");
    assertEquals([body.done, body.takeWhole(), decode(connection.unread)], [true, undefined, "NEXT"]);
  });
  await withBody(5, ["hello"], async (body, connection) => {
    await connection.fill();
    assertEquals(decode((await body.read())!), "hello");
    assertEquals(body.takeWhole(), undefined);
  });
  await withBody("chunked", ["0\r\n\r\n"], async (body, connection) => {
    await connection.fill();
    assertEquals(body.takeWhole(), undefined);
  });
});

Deno.test("bodies in memory, and with a beginning that was read already", async () => {
  assertEquals([NO_BODY.done, NO_BODY.ready, NO_BODY.length, await NO_BODY.read()], [true, false, 0, null]);
  const whole = new WholeBody(encode("hello"), [["x", "1"]]);
  assertEquals([whole.done, whole.ready, whole.length, whole.trailers], [false, true, 5, [["x", "1"]]]);
  const rest = new RestOfBody(encode("first "), whole);
  assertEquals([rest.done, rest.ready, rest.length, rest.trailers], [false, true, 5, [["x", "1"]]]);
  assertEquals([decode((await rest.read())!), rest.done, rest.ready], ["first ", false, true]);
  assertEquals([await textOf(rest), rest.done, rest.ready], ["hello", true, false]);
  const none = new RestOfBody(encode(""), NO_BODY);
  assertEquals([none.done, none.ready, await none.read()], [true, false, null]);
});

Deno.test("a body is read whole, across its pieces", async () => {
  const wire = "2\r\nab\r\n2\r\ncd\r\n2\r\nef\r\n0\r\n\r\n";
  await withBody("chunked", [wire], async (body) => assertEquals(decode(await readWhole(body, 6)), "abcdef"));
  await withBody(0, [], async (body) => assertEquals((await readWhole(body, 0)).length, 0));
});

Deno.test("framing: one reading of each message, or none", () => {
  const head = (text: string, old = false) => ({
    status: 200,
    old,
    headers: text.split(", ").filter(Boolean).map((field) => field.split(": ") as [string, string]),
  });
  const request = (text: string, old?: boolean) => requestFraming(head(text, old) as never);
  const response = (text: string, method = "GET", status = 200, old = false) =>
    responseFraming({ ...head(text, old), status } as never, method);
  assertEquals([request(""), request("content-length: 5"), request("content-length: 0")], [0, 5, 0]);
  assertEquals(request("transfer-encoding: Chunked"), "chunked");
  assertEquals(request("content-length: 999999999999999"), 999999999999999);
  assertEquals([response(""), response("content-length: 5"), response("content-length: 0")], ["close", 5, 0]);
  assertEquals(response("content-length: 5, content-length: 5"), 5);
  assertEquals(response("transfer-encoding: chunked"), "chunked");
  for (const [method, status] of [["HEAD", 200], ["GET", 199], ["GET", 204], ["GET", 304]] as const) {
    assertEquals(response("content-length: 5", method, status), 0, `${method} ${status}`);
  }
  assertEquals([response("content-length: 5", "GET", 205), response("content-length: 5", "GET", 305)], [
    5,
    5,
  ]);
  const bad: [() => unknown, string][] = [
    [() => request("content-length: 5, content-length: 5"), "more than one"],
    [() => request("content-length: 5, content-length: 6"), "conflicting"],
    [() => request("content-length: 5, transfer-encoding: chunked"), "both"],
    [() => request("content-length: 0, transfer-encoding: chunked"), "both"],
    [() => request("transfer-encoding: chunked", true), "HTTP/1.0"],
    [() => request("transfer-encoding: gzip"), "other than chunked"],
    [() => request("transfer-encoding: chunked, transfer-encoding: chunked"), "other than chunked"],
    [() => request("content-length: +5"), "not a number"],
    [() => request("content-length: 1000000000000000"), "not a number"],
    [() => response("content-length: 5, transfer-encoding: chunked"), "both"],
    [() => response("content-length: 5, transfer-encoding: chunked", "HEAD"), "both"],
    [() => response("content-length: 5, content-length: 6"), "conflicting"],
    [() => response("transfer-encoding: chunked", "GET", 200, true), "HTTP/1.0"],
  ];
  for (const [read, why] of bad) assertThrows(read, MessageFault, why);
  const alive = (text: string, old = false) => keepsAlive(head(text, old));
  assertEquals([alive(""), alive("", true)], [true, false]);
  assertEquals([alive("connection: Keep-Alive", true), alive("connection: upgrade", true)], [true, false]);
  assertEquals([alive("connection: x;Close"), alive("connection: te;\tclose")], [true, false]);
  assertEquals(alive("connection: keep-alive, connection: close", true), false);
  assertEquals(alive("x-connection: close"), true);
});
