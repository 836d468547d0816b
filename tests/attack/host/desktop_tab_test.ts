/**
 * The desktop page's session after the gateway: another user who gets its port gets
 * nothing that opens the next gateway.
 */
import { assert, assertEquals, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { request } from "node:http";
import { limitChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Parsed } from "../../helper/json.ts";

interface Sent {
  method?: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Parsed;
}

/** Sends what a browser would: under any name of this machine, to 127.0.0.1. */
function send(port: number, { method = "GET", path, headers, body = "" }: Sent): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const length = body === "" ? {} : { "content-length": String(body.length) };
  const message = request(
    { host: "127.0.0.1", port, method, path, headers: { ...headers, ...length } },
    async (response) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const text = new TextDecoder().decode(await new Blob(chunks as BlobPart[]).arrayBuffer());
      resolve({ status: response.statusCode!, headers: response.headers, body: JSON.parse(text || "null") });
    },
  );
  message.on("error", reject);
  message.end(body);
  return promise;
}

Deno.test("a desktop session ends with its gateway: what the port's next listener records opens nothing", async () => {
  const home = await Deno.makeTempDir({ prefix: "sbx-tab-" });
  const gatewayPort = freePort();
  const sbx = async (...args: string[]) => {
    const child = limitChild(
      new Deno.Command(fromRoot("bin/sbx"), {
        args,
        env: { SBX_HOME: home, SBX_GATEWAY_PORT: String(gatewayPort), NO_COLOR: "1" },
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn(),
    );
    const { code, stdout, stderr } = await child.output();
    assertEquals(code, 0, `${args}: ${new TextDecoder().decode(stderr)}`);
    return new TextDecoder().decode(stdout).trim();
  };
  const signIn = async () => {
    const url = new URL(await sbx("desktop", "--print-url"));
    const port = Number(url.port);
    const own = { host: url.host, origin: url.origin, "user-agent": "browser" };
    const code = url.hash.slice("#code=".length);
    const { status, headers, body } = await send(port, {
      method: "POST",
      path: "/desktop/session",
      headers: { ...own, "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    assertEquals(status, 200, JSON.stringify(body));
    const cookie = headers["set-cookie"]![0].split(";")[0];
    return { port, host: url.host, headers: { ...own, cookie, "x-sbx-desktop": body.key as string } };
  };
  try {
    const tab = await signIn();
    const list = { path: "/vms/list", headers: tab.headers };
    assertEquals((await send(tab.port, list)).status, 200);
    assert(!(await Array.fromAsync(Deno.readDir(`${home}/run`))).some(({ name }) => name === "desktop.json"));

    // Browsers try ::1 for the page's host too.
    if (hasIpv6()) {
      assertThrows(() => Deno.listen({ hostname: "::1", port: tab.port }).close(), Deno.errors.AddrInUse);
    }

    await sbx("stop");
    let recorded: Sent | undefined;
    const listener = Deno.serve(
      { hostname: "127.0.0.1", port: tab.port, onListen() {} },
      ({ url, headers }) => {
        recorded = { path: new URL(url).pathname, headers: Object.fromEntries(headers) };
        return Response.json({});
      },
    );
    // A reload sends the cookie, and the listener's own page reads the storage of the origin.
    await send(tab.port, list);
    await listener.shutdown();
    assertEquals(recorded!.headers["x-sbx-desktop"], tab.headers["x-sbx-desktop"]);

    await sbx("start", "--port", String(tab.port));
    const fresh = await signIn();
    assertEquals(fresh.port, tab.port);
    assertNotEquals(
      fresh.host,
      tab.host,
      "the next page has another origin: storage and workers are not its own",
    );
    for (const host of [tab.host, fresh.host, `127.0.0.1:${tab.port}`, `localhost:${tab.port}`]) {
      const headers = { ...recorded!.headers, host, origin: `http://${host}` };
      const { status, body } = await send(tab.port, { path: "/vms/list", headers });
      assertMatch(`${status} ${body.code}`, /^(401 auth\.desktop|403 auth\.bad_(host|origin))$/, host);
    }
    assertEquals((await send(fresh.port, { path: "/vms/list", headers: fresh.headers })).status, 200);
  } finally {
    await sbx("stop", "--all");
    await Deno.remove(home, { recursive: true });
  }
});

/**
 * A port of this machine that no connection of another test gets by chance: below
 * those that the kernel chooses.
 */
function freePort(): number {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

function hasIpv6(): boolean {
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}
