/** Another user of this host speaks in place of a guest, through the listener that ends its TLS. */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

Deno.test("a connection from another loopback address is not the guest's, whatever its port", async () => {
  const connect = Deno.connect;
  let stranger: Deno.ChildProcess | undefined;
  await using net = await TestNet.open({ target: () => upstream.target });
  const upstream = fixedUpstream(OK, await net.leaf(HOST));
  // The stranger connects while the proxy waits for its own connection to the listener.
  let calls = 0;
  Deno.connect = (async (options: Deno.ConnectOptions) => {
    const conn = await connect(options);
    if (++calls !== 2) return conn;
    const port = (conn.localAddr as Deno.NetAddr).port;
    const from = ["--interface", "127.0.0.2", "--local-port", `${port}`, "--max-time", "20"];
    const to = [
      "-ks",
      "--resolve",
      `${HOST}:${options.port}:127.0.0.1`,
      `https://${HOST}:${options.port}/stolen`,
    ];
    stranger = new Deno.Command("curl", { args: [...from, ...to], stdout: "null", stderr: "null" }).spawn();
    const end = `0200007F:${port.toString(16).toUpperCase().padStart(4, "0")} `;
    await eventually("the stranger is connected", async () => {
      const connections = await Deno.readTextFile("/proc/net/tcp");
      return connections.split("\n").some((line) => line.includes(`: ${end}`) && / 01 /.test(line));
    });
    // One more turn of the listener.
    await new Promise((resolve) => setTimeout(resolve, 100));
    return conn;
  }) as typeof Deno.connect;
  try {
    const client = await net.tls(HOST);
    const { status } = await client.ask(`GET /guest HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
    client.close();
    assertEquals(status, 200);
    assertEquals((await stranger!.status).success, false);
  } finally {
    Deno.connect = connect;
    upstream.close();
  }
  assertEquals(net.gate.entries.map(({ event }) => event.http!.request.path), ["/guest"]);
});
