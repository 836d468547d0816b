/** What servers answer is shown without what rewrites a screen, and in bounds. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../../../lib/fleet/clickhouse/mod.ts";
import { openNats, parseNats } from "../../../lib/fleet/nats.ts";
import { HttpTarget } from "../../../lib/fleet/ship/mod.ts";

const HOSTILE = `\u001b[2J\u202e${"x".repeat(10_000)}`;
/** Longest message, with the address. */
const MESSAGE_MAX = 700;

async function answering(status: number, body: string, run: (host: string) => Promise<void>): Promise<void> {
  const server = Deno.serve({ port: 0, onListen() {} }, () => new Response(body, { status }));
  try {
    await run(`127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

function assertShown({ message, hint = "" }: SbxError): void {
  for (const unseen of ["\u001b", "\u202e"]) assert(!(message + hint).includes(unseen), message);
  assert(message.length < MESSAGE_MAX && hint.length < MESSAGE_MAX, message);
}

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("errors of collectors are shown as plain, short text", options, async () => {
  for (const status of [200, 400, 503]) {
    for (const body of [HOSTILE, JSON.stringify({ error: HOSTILE, hint: HOSTILE, message: HOSTILE })]) {
      await answering(status, body, async (host) => {
        const clickHouse = new ClickHouseClient(parseClickHouse(`clickhouse://${host}`));
        if (status !== 200 || body === HOSTILE) {
          assertShown(await assertRejects(() => clickHouse.rows("SELECT 1"), SbxError));
        }
        if (status === 200) return;
        assertShown(await assertRejects(() => new HttpTarget(`http://${host}`).report("{}"), SbxError));
      });
    }
  }
});

Deno.test("clickhouse: an answer that is no JSON is told, with its beginning", () =>
  answering(200, "<html>\nSign in to the hotel</html>", async (host) => {
    const client = new ClickHouseClient(parseClickHouse(`clickhouse://${host}`));
    const { code, message, cause } = await assertRejects(() => client.rows("SELECT 1"), SbxError);
    assertEquals(code, "fleet.unavailable");
    assertStringIncludes(message, "answers with something other than JSON: <html>");
    assert(cause instanceof SyntaxError);
  }));

const GREETINGS = [
  "INFO {}\r\n",
  'INFO {"version":"x","max_payload":1}\r\n',
  'INFO {"version":"2.10.0","max_payload":1,"connect_urls":7}\r\n',
  "INFO nonsense\r\n",
  "HTTP/1.1 400 Bad Request\r\n\r\n",
  "\u001b[2J\r\n",
  "x".repeat(100_000),
];

Deno.test("nats: a strange greeting is one error, and prints nothing", options, async () => {
  for (const greeting of GREETINGS) {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    (async () => {
      for await (const connection of listener) {
        const bytes = new TextEncoder().encode(greeting);
        connection.write(bytes).then(() => connection.read(new Uint8Array(1))).catch(() => {}).finally(() =>
          connection.close()
        );
      }
    })();
    const printed: unknown[] = [];
    const original = console.log;
    console.log = (...parts) => void printed.push(parts);
    try {
      const address = parseNats(`nats://127.0.0.1:${listener.addr.port}`);
      const error = await assertRejects(() => openNats(address), SbxError);
      assertEquals(error.code, "fleet.unavailable");
      assertStringIncludes(error.message, "its greeting is not that of a NATS server");
      assertEquals(printed, [], greeting.slice(0, 100));
    } finally {
      console.log = original;
      listener.close();
    }
  }
});
