/**
 * The client of the network's bench, in a process of its own: keep-alive requests over TLS, byte by byte the same for
 * every proxy. Reads jobs as JSON lines and prints one JSON line for each.
 */
import { createInterface } from "node:readline";
import { stdin } from "node:process";

/** What is to be measured. */
export interface Job {
  port: number;
  host: string;
  caFile: string;
  kind: "requests" | "download" | "latency" | "connections";
  connections: number;
  /** requests altogether, bytes of a download, or connections that are held open */
  count: number;
}

/** What was measured. */
export interface Result {
  seconds: number;
  /** milliseconds of each request, sorted; for `latency` */
  p50_ms?: number;
  p99_ms?: number;
  failed: number;
}

const decoder = new TextDecoder("latin1");

if (import.meta.main) {
  for await (const line of createInterface({ input: stdin })) {
    console.log(JSON.stringify(await run(JSON.parse(line))));
  }
}

async function run(job: Job): Promise<Result> {
  const conns = await Promise.all(Array.from({ length: job.connections }, () => open(job)));
  const request = new TextEncoder().encode(
    `GET ${
      job.kind === "download" ? `/big/${job.count}` : "/v1/items?page=1"
    } HTTP/1.1\r\nhost: ${job.host}\r\n` +
      "user-agent: bench/1\r\naccept: application/json\r\n\r\n",
  );
  let left = job.kind === "download" ? 1 : job.count;
  let failed = 0;
  const times: number[] = [];
  const from = performance.now();
  await Promise.all(conns.map(async (conn) => {
    const buffer = new Uint8Array(256 * 1024);
    while (left-- > 0) {
      const began = performance.now();
      try {
        await conn.write(request);
        await answer(conn, buffer);
      } catch (error) {
        if (failed++ === 0) console.error("a request failed:", (error as Error).message);
        return;
      }
      if (job.kind === "latency") times.push(performance.now() - began);
    }
  }));
  const seconds = (performance.now() - from) / 1000;
  for (const conn of conns) conn.close();
  times.sort((a, b) => a - b);
  const at = (part: number) => times[Math.floor(times.length * part)];
  return { seconds, failed, ...(times.length && { p50_ms: at(0.5), p99_ms: at(0.99) }) };
}

async function open({ port, host, caFile }: Job): Promise<Deno.TlsConn> {
  const tcp = await Deno.connect({ hostname: "127.0.0.1", port });
  tcp.setNoDelay(true);
  const tls = await Deno.startTls(tcp, {
    hostname: host,
    caCerts: [await Deno.readTextFile(caFile)],
    alpnProtocols: ["http/1.1"],
  });
  await tls.handshake();
  return tls;
}

/** Reads one answer with a length, or in chunks. */
async function answer(conn: Deno.Conn, buffer: Uint8Array): Promise<void> {
  let held = 0;
  let end = -1;
  while (end < 0) {
    const count = await conn.read(buffer.subarray(held));
    if (count === null) throw new Error("closed");
    held += count;
    end = decoder.decode(buffer.subarray(0, held)).indexOf("\r\n\r\n");
  }
  const head = decoder.decode(buffer.subarray(0, end)).toLowerCase();
  if (!head.startsWith("http/1.1 200")) throw new Error(head);
  const length = /content-length: (\d+)/.exec(head)?.[1];
  if (length === undefined) {
    while (!decoder.decode(buffer.subarray(Math.max(0, held - 5), held)).endsWith("0\r\n\r\n")) {
      const count = await conn.read(buffer.subarray(held));
      if (count === null) throw new Error("closed");
      held += count;
    }
    return;
  }
  for (let left = Number(length) - (held - end - 4); left > 0;) {
    const count = await conn.read(buffer);
    if (count === null) throw new Error("closed");
    left -= count;
  }
}
