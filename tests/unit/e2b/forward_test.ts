/** Requests to ports of a sandbox, whose programs answer as they like. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { Sandboxes } from "../../../cmd/sbx/e2b/sandboxes.ts";
import { e2bHandler } from "../../../cmd/sbx/e2b/server.ts";
import { newId, newToken, type Sandbox, Store } from "../../../cmd/sbx/e2b/store.ts";
import { Client } from "../../../lib/client/mod.ts";
import { newToken as newKey, TokenGate } from "../../../lib/client/gateway/mod.ts";

Deno.test("a program of a sandbox gets no secret, and its answer is one of HTTP", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-e2b-" });
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const local = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const service = Deno.serve(local, () => Response.json({ host_port: listener.addr.port }));
  const store = await Store.open(join(dir, "e2b.json"));
  const sandbox: Sandbox = {
    ...{ id: newId(), vm: crypto.randomUUID(), template: "base", token: newToken(), metadata: {} },
    ...{ started_at: 1, ends_at: 2, on_timeout: "kill", auto_resume: false, allows_internet: true },
    is_paused: false,
  };
  await store.put(sandbox);
  using http = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const client = new Client(`http://127.0.0.1:${service.addr.port}`, undefined, http);
  const handle = e2bHandler(new Sandboxes(client, store, new Map()), new TokenGate(newKey()), http);
  for (const [answered, status] of [[200, 200], [204, 204], [404, 404], [600, 502], [999, 502]]) {
    const asked = handle(
      new Request("http://127.0.0.1:19230/a?b=c", {
        headers: { host: `8000-${sandbox.id}.e2b.app`, "x-access-token": sandbox.token },
      }),
    );
    using connection = await listener.accept();
    const bytes = new Uint8Array(4096);
    const head = new TextDecoder().decode(bytes.subarray(0, (await connection.read(bytes))!));
    assertEquals([head.split("\r\n")[0], head.includes(sandbox.token), head.includes(sandbox.id)], [
      "GET /a?b=c HTTP/1.1",
      false,
      false,
    ]);
    await connection.write(new TextEncoder().encode(`HTTP/1.1 ${answered} x\r\nConnection: close\r\n\r\n`));
    connection.closeWrite();
    const response = await asked;
    assertEquals(response.status, status);
    await response.body?.cancel();
  }
  await service.shutdown();
  await Deno.remove(dir, { recursive: true });
});
