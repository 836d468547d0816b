/**
 * Client of the network's bench, in a process of its own: keep-alive requests over TLS, with the same bytes
 * for every proxy. Reads jobs as JSON lines and prints one JSON line for each.
 */
import { stdin } from "node:process";
import { createInterface } from "node:readline";

/** One measurement to make. */
export interface Job {
  port: number;
  host: string;
  caFile: string;
  kind: "requests" | "download" | "latency" | "connections";
  connections: number;
  /** number of requests, `bytes` of a download, or number of open connections */
  count: number;
  /** paths of the requests, one after the other; default: one path */
  paths?: number;
}

/** Result of one measurement. */
export interface Result {
  seconds: number;
  /** latency of a request in `ms`; for `latency` */
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
  const requestOf = (path: string) =>
    new TextEncoder().encode(
      `GET ${path} HTTP/1.1\r\nhost: ${job.host}\r\n` +
        "user-agent: bench/1\r\naccept: application/json\r\n\r\n",
    );
  const requests = job.kind === "download"
    ? [requestOf(`/big/${job.count}`)]
    : job.paths === undefined
    ? [requestOf("/v1/items?page=1")]
    : Array.from({ length: job.paths }, (_, at) => requestOf(`/v1/items/${at}?page=1`));
  let next = 0;
  let remaining = job.kind === "download" ? 1 : job.count;
  let failed = 0;
  const times: number[] = [];
  const start = performance.now();
  await Promise.all(conns.map(async (conn) => {
    const buffer = new Uint8Array(256 * 1024);
    while (remaining-- > 0) {
      const sent = performance.now();
      try {
        await conn.write(requests[next++ % requests.length]);
        await readResponse(conn, buffer);
      } catch (error) {
        if (failed++ === 0) console.error("a request failed:", (error as Error).message);
        return;
      }
      if (job.kind === "latency") times.push(performance.now() - sent);
    }
  }));
  const seconds = (performance.now() - start) / 1000;
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

/** Reads one response with a length, or in chunks. */
async function readResponse(conn: Deno.Conn, buffer: Uint8Array): Promise<void> {
  let count = 0;
  let end = -1;
  while (end < 0) {
    const read = await conn.read(buffer.subarray(count));
    if (read === null) throw new Error("closed");
    count += read;
    end = decoder.decode(buffer.subarray(0, count)).indexOf("\r\n\r\n");
  }
  const head = decoder.decode(buffer.subarray(0, end)).toLowerCase();
  if (!head.startsWith("http/1.1 200")) throw new Error(head);
  const length = /content-length: (\d+)/.exec(head)?.[1];
  if (length === undefined) {
    while (!decoder.decode(buffer.subarray(Math.max(0, count - 5), count)).endsWith("0\r\n\r\n")) {
      const read = await conn.read(buffer.subarray(count));
      if (read === null) throw new Error("closed");
      count += read;
    }
    return;
  }
  for (let remaining = Number(length) - (count - end - 4); remaining > 0;) {
    const read = await conn.read(buffer);
    if (read === null) throw new Error("closed");
    remaining -= read;
  }
}
