/** permessage-deflate: its terms with each side, and clients and servers of `ws` through the proxy. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createInflateRaw } from "node:zlib";
import { type PerMessageDeflateOptions, WebSocket as Client, WebSocketServer } from "ws";
import { MessageFault } from "../../../lib/network/fault.ts";
import {
  agreeWithGuest,
  agreeWithUpstream,
  Deflater,
  EXTENSIONS,
} from "../../../lib/network/websocket/deflate.ts";
import { Random } from "../../helper/random.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "chat.example.com";
const NAME = "permessage-deflate";

Deno.test("a guest's first offer that can be agreed on is, and others are declined", () => {
  const answers: [offer: string[], answer: string | undefined][] = [
    [[], undefined],
    [[NAME], NAME],
    [["x-webkit-deflate-frame, permessage-deflate; client_max_window_bits"], NAME],
    [
      [`${NAME}; server_no_context_takeover;client_no_context_takeover`],
      `${NAME}; server_no_context_takeover; client_no_context_takeover`,
    ],
    [
      [`${NAME}; server_max_window_bits="10"; client_max_window_bits=12`],
      `${NAME}; server_max_window_bits=10`,
    ],
    [[`${NAME}; server_max_window_bits=7, ${NAME}`], NAME],
    [[`${NAME}; unknown`, NAME], NAME],
    [[`${NAME}; server_max_window_bits`], undefined],
    [[`${NAME}; server_max_window_bits=016`], undefined],
    [[`${NAME}; client_max_window_bits=16`], undefined],
    [[`${NAME}; client_no_context_takeover=1`], undefined],
    [[`${NAME}; client_no_context_takeover; client_no_context_takeover`], undefined],
    [[`${NAME};`], undefined],
    [[`${NAME}, ,`], undefined],
    [["permessage-bzip2"], undefined],
  ];
  for (const [offer, answer] of answers) {
    const agreed = agreeWithGuest(offer.map((value) => [EXTENSIONS, value]));
    assertEquals(agreed?.answer, answer, `${offer}`);
  }
});

Deno.test("an upstream's answer has to fit the offer", () => {
  const agree = (...values: string[]) => agreeWithUpstream(values.map((value) => [EXTENSIONS, value]), true)!;
  assertEquals(agree(), undefined as never);
  assertEquals(agree(NAME).writes, { takeover: true, bits: 15 });
  const limited = agree(
    `${NAME}; client_no_context_takeover; client_max_window_bits=9; server_max_window_bits=8`,
  );
  assertEquals([limited.writes, limited.readsTakeover], [{ takeover: false, bits: 9 }, true]);
  assertEquals(agree(`${NAME}; server_no_context_takeover`).readsTakeover, false);
  for (
    const wrong of [
      [`${NAME}; client_max_window_bits`],
      [`${NAME}; mux`],
      [NAME, NAME],
      [`${NAME}, ${NAME}`],
      ["permessage-bzip2"],
      [""],
    ]
  ) {
    assertThrows(() => agree(...wrong), MessageFault);
  }
  assertThrows(() => agreeWithUpstream([[EXTENSIONS, NAME]], false), MessageFault, "not offered");
});

Deno.test("an empty message is a block of its own, and the next one can be read", async () => {
  const deflater = new Deflater(agreeWithGuest([[EXTENSIONS, NAME]])!);
  const inflater = createInflateRaw();
  const read: string[] = [];
  inflater.on("data", (part) => read.push(`${part}`));
  for (const text of ["one", "", "", "two"]) {
    const payload = await deflater.deflate(new TextEncoder().encode(text), true);
    if (text === "") assertEquals(payload, Uint8Array.of(0));
    await new Promise((resolve) => inflater.write(Uint8Array.from([...payload, 0, 0, 255, 255]), resolve));
  }
  await new Promise((resolve) => inflater.end(Uint8Array.of(3, 0)).once("end", resolve));
  assertEquals(read.join(), "one,two");
  deflater.close();
});

/**
 * A client and a server of `ws`, whose messages come back.
 * @returns texts that the client got, and its extensions
 */
async function echo(client: PerMessageDeflateOptions, server: PerMessageDeflateOptions, texts: string[]) {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const web = createServer(await net.leaf(HOST));
  const sockets = new WebSocketServer({ server: web, perMessageDeflate: { threshold: 0, ...server } });
  let offered: string | undefined;
  sockets.on("connection", (socket, request) => {
    offered = request.headers[EXTENSIONS] as string | undefined;
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", () => resolve()));
  target = { hostname: "127.0.0.1", port: (web.address() as AddressInfo).port };
  const forward = net.forward(443);
  const options = {
    servername: HOST,
    headers: { host: HOST },
    ca: net.caCert,
    perMessageDeflate: { threshold: 0, ...client },
  };
  const socket = new Client(`wss://127.0.0.1:${forward.port}/`, options);
  try {
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    const received: string[] = [];
    const all = new Promise<void>((resolve, reject) => {
      socket.on("message", (data) => {
        received.push(`${data}`);
        if (received.length === texts.length) resolve();
      });
      socket.once("close", (code) => reject(new Error(`closed with ${code}`)));
    });
    for (const [at, text] of texts.entries()) {
      // A third of the messages are cut into fragments.
      const middle = at % 3 === 0 ? Math.floor(text.length / 2) : 0;
      if (middle > 0) socket.send(text.slice(0, middle), { fin: false, binary: false });
      socket.send(text.slice(middle), { binary: false });
    }
    await all;
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.close(1000);
    await closed;
    await net.idle();
    const { outcome } = net.gate.entries[0];
    return { received, offered, agreed: socket.extensions, outcome: outcome!, net };
  } finally {
    socket.terminate();
    forward.close();
    sockets.close();
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
  }
}

Deno.test("messages of ws pass as they are, whatever windows both sides agreed on", async () => {
  const random = new Random(7692);
  const texts = Array.from(
    { length: 24 },
    () =>
      Array.from(
        { length: random.below(random.pick([3, 300, 30_000])) },
        () => random.pick(["aü🙂", '{"k":', "xyz", `${random.below(1e6)}`]),
      ).join(""),
  );
  const long = "0123456789".repeat(400_000);
  const sets: [PerMessageDeflateOptions, PerMessageDeflateOptions][] = [
    [{}, {}],
    [{ clientNoContextTakeover: true, serverNoContextTakeover: true }, { clientNoContextTakeover: true }],
    [{ serverMaxWindowBits: 9 }, { clientMaxWindowBits: 9, serverNoContextTakeover: true }],
    [{ serverMaxWindowBits: 8 }, { clientMaxWindowBits: 8 }],
  ];
  for (const [client, server] of sets) {
    const { received, offered, agreed, outcome } = await echo(client, server, [...texts, long, ""]);
    assertEquals(received, [...texts, long, ""]);
    assertEquals(offered, `${NAME}; client_max_window_bits`);
    assert(agreed.includes(NAME));
    assertEquals(outcome.error, undefined);
    const { bytes } = outcome.response as { bytes: number };
    // The server compressed: 4 MB and more were a small part of it.
    assert(bytes < 1_500_000, `${bytes}`);
  }
});
