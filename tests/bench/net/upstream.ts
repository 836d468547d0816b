/** A TLS upstream in a process of its own: answers `/` with a small JSON body and `/big/N` with N bytes. Prints its port. */
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
  let held = 0;
  while (true) {
    const count = await conn.read(buffer.subarray(held));
    if (count === null) return conn.close();
    held += count;
    const text = new TextDecoder().decode(buffer.subarray(0, held));
    if (!text.endsWith("\r\n\r\n")) continue;
    held = 0;
    const big = Number(/^GET \/big\/(\d+)/.exec(text)?.[1] ?? 0);
    if (!big) {
      await writeAll(conn, small);
      continue;
    }
    await writeAll(conn, encoder.encode(`HTTP/1.1 200 OK\r\ncontent-length: ${big}\r\n\r\n`));
    for (let left = big; left > 0; left -= piece.length) await writeAll(conn, piece.subarray(0, left));
  }
}

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}
