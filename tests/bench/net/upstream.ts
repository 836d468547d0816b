/** TLS upstream in a process of its own: `/` has a small JSON body, `/big/N` has N bytes. Prints its port. */
const [certFile, keyFile] = Deno.args;
const listener = Deno.listenTls({
  hostname: "127.0.0.1",
  port: 0,
  cert: await Deno.readTextFile(certFile),
  key: await Deno.readTextFile(keyFile),
  alpnProtocols: ["http/1.1"],
});
console.log((listener.addr as Deno.NetAddr).port);

const encoder = new TextEncoder();
const body = JSON.stringify({ ok: true, items: Array.from({ length: 20 }, (_, at) => `item ${at}`) });
const small = encoder.encode(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
);
const piece = new Uint8Array(256 * 1024).fill(120);

for await (const conn of listener) serve(conn).catch(() => {});

async function serve(conn: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(16 * 1024);
  let count = 0;
  while (true) {
    const read = await conn.read(buffer.subarray(count));
    if (read === null) return conn.close();
    count += read;
    const text = new TextDecoder().decode(buffer.subarray(0, count));
    if (!text.endsWith("\r\n\r\n")) continue;
    count = 0;
    const big = Number(/^GET \/big\/(\d+)/.exec(text)?.[1] ?? 0);
    if (!big) {
      await writeAll(conn, small);
      continue;
    }
    await writeAll(conn, encoder.encode(`HTTP/1.1 200 OK\r\ncontent-length: ${big}\r\n\r\n`));
    for (let remaining = big; remaining > 0; remaining -= piece.length) {
      await writeAll(conn, piece.subarray(0, remaining));
    }
  }
}

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}
