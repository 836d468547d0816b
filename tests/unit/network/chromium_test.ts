/** A browser in the guest: what Chromium does over HTTP/2 without being asked. */
import { assertEquals } from "@std/assert";
import { chromium } from "playwright-core";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "www.example.com";
const START_MS = 60_000;
const REQUESTS = 60;

/** Runs in the page: many requests at once, an upload, a stream of events and a WebSocket. */
const PAGE = `(async () => {
  const texts = (paths) => Promise.all(paths.map((path) => fetch(path).then((answer) => answer.text())));
  const many = await texts(Array.from({ length: ${REQUESTS} }, (_, at) => "/item/" + at));
  const upload = await fetch("/upload", { method: "POST", body: new Uint8Array(300_000) });
  const events = await new Promise((resolve, reject) => {
    const source = new EventSource("/events"), seen = [];
    source.onerror = reject;
    source.onmessage = ({ data }) => {
      seen.push(data);
      if (seen.length === 3) source.close(), resolve(seen);
    };
  });
  const socket = new WebSocket("wss://${HOST}/socket", "talk");
  const answer = await new Promise((resolve, reject) => {
    socket.onerror = reject;
    socket.onopen = () => socket.send("hello");
    socket.onmessage = ({ data }) => resolve([socket.protocol, data]);
  });
  socket.close();
  const protocols = performance.getEntries().flatMap(({ nextHopProtocol }) => nextHopProtocol ?? []);
  return { many, upload: await upload.text(), events, answer, protocols: [...new Set(protocols)] };
})()`;

async function answerOf(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  switch (pathname.split("/")[1]) {
    case "item":
      return new Response(`item ${pathname.slice("/item/".length)}`);
    case "upload":
      return new Response(`${(await request.arrayBuffer()).byteLength}`);
    case "events": {
      const text = ["a", "b", "c"].map((data) => `data: ${data}\n\n`).join("");
      return new Response(text, { headers: { "content-type": "text/event-stream" } });
    }
    case "socket": {
      const { socket, response } = Deno.upgradeWebSocket(request, { protocol: "talk" });
      socket.onmessage = ({ data }) => socket.send(`${data}!`);
      return response;
    }
    default:
      return new Response("<!doctype html><title>page</title>", { headers: { "content-type": "text/html" } });
  }
}

Deno.test("Chromium: a page, its requests, an upload, events and a WebSocket share HTTP/2", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {}, ...await net.leaf(HOST) },
    answerOf,
  );
  target = { hostname: "127.0.0.1", port: upstream.addr.port };
  const forward = net.forward(443);
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", `--host-resolver-rules=MAP ${HOST}:443 127.0.0.1:${forward.port}`],
    timeout: timeLimit(START_MS),
  });
  try {
    const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
    await page.goto(`https://${HOST}/`);
    assertEquals(await page.evaluate(PAGE), {
      many: Array.from({ length: REQUESTS }, (_, at) => `item ${at}`),
      upload: "300000",
      events: ["a", "b", "c"],
      answer: ["talk", "hello!"],
      protocols: ["h2"],
    });
    assertEquals(net.proxy.size.guests, 1);
  } finally {
    await browser.close();
    forward.close();
  }
  await net.idle();
  const paths = net.gate.entries.map(({ event }) => event.http!.request.path);
  assertEquals(paths.filter((path) => path.startsWith("/item/")).length, REQUESTS);
  const socket = net.gate.entries.find(({ event }) => event.http!.request.path === "/socket")!;
  assertEquals((socket.outcome!.response as { status: number }).status, 101);
});
