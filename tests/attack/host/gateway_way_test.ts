/**
 * The way from a user's own programs to the gateway: proxies and other users who listen see nothing of it.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { home } from "../../../lib/base/home/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

const KEY = "sk-ant-api03-" + "Tq7".repeat(30);

/** A listener on loopback that keeps what it is sent, and answers as a gateway would. */
class Impostor implements Disposable {
  readonly received: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });

  constructor() {
    void this.#serve();
  }

  get port(): number {
    return (this.#listener.addr as Deno.NetAddr).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }

  async #serve(): Promise<void> {
    for await (const conn of this.#listener) {
      const bytes = new Uint8Array(16_384);
      const count = await conn.read(bytes).catch(() => null);
      this.received.push(new TextDecoder().decode(bytes.subarray(0, count ?? 0)));
      const body = '{"ok":true,"service":true,"version":"0.1.0"}';
      const head =
        `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
      await conn.write(new TextEncoder().encode(head + body)).catch(() => {});
      conn.close();
    }
  }
}

async function withHome(
  run: (
    dir: string,
    sbx: (
      words: string[],
      env?: Record<string, string>,
      stdin?: string,
    ) => Promise<{ code: number; text: string }>,
  ) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-way-" });
  const sbx = async ([name, ...args]: string[], env: Record<string, string> = {}, stdin = "") => {
    const child = limitChild(new Deno.Command(fromRoot(`bin/${name}`), {
      args,
      env: { SBX_HOME: dir, SBX_GATEWAY_PORT: "0", NO_COLOR: "1", ...env },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn());
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin)).catch(() => {});
    await writer.close().catch(() => {});
    const { code, stdout, stderr } = await child.output();
    return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
  };
  try {
    await run(dir, sbx);
  } finally {
    await sbx(["sbx", "stop", "--all"]);
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("no command of this machine goes to a proxy, and each works with one that answers nothing", () =>
  withHome(async (_dir, sbx) => {
    using proxy = new Impostor();
    const env = Object.fromEntries(
      ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) =>
        [name, name.toLowerCase()].map((each) => [each, proxy.url])
      ),
    );
    const initialize =
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",' +
      '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n' +
      '{"jsonrpc":"2.0","method":"notifications/initialized"}\n' +
      '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":{}}}\n';
    for (
      const [words, stdin] of [
        ["sbx start"],
        ["sbx credentials add anthropic", `${KEY}\n`],
        ["sbx credentials list"],
        ["sbx list"],
        ["sbx status"],
        ["sbx sessions"],
        ["sbx settings list"],
        ["sbx debug --json"],
        ["sbx asks"],
        ["sbx-mcp", initialize],
      ]
    ) {
      const { code, text } = await sbx(words.split(" "), env, stdin);
      // A home without an image is an issue that status and debug report.
      assertEquals(code, words === "sbx status" ? 1 : 0, `${words}: ${text}`);
    }
    assertEquals(proxy.received, []);
  }));

Deno.test("a port that a dead gateway left behind gets no token and no key from any command", () =>
  withHome(async (dir, sbx) => {
    using other = new Impostor();
    const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    assertEquals((await sbx(["sbx", "start"])).code, 0);
    const pid = Number(await Deno.readTextFile(place.gatewayPidFile));
    Deno.kill(pid, "SIGKILL");
    // As after a power cut: its files are there, and another user has the port.
    await Deno.writeTextFile(place.gatewayPortFile, `${other.port}\n`);
    for (
      const [words, stdin] of [["sbx credentials add anthropic", `${KEY}\n`], ["sbx list"], ["sbx status"]]
    ) {
      const { code, text } = await sbx(words.split(" "), {}, stdin);
      assertEquals(code, words === "sbx status" ? 1 : 0, `${words}: ${text}`);
    }
    assertEquals(other.received, []);
    assertMatch(
      (await Deno.readTextFile(place.gatewayPortFile)).trim(),
      new RegExp(`^(?!${other.port}$)\\d+$`),
    );
  }));

Deno.test("a socket that another user put into the run folder is not spoken to", {
  // Only root can give a file away.
  ignore: Deno.uid() !== 0,
}, () =>
  withHome(async (dir, sbx) => {
    const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    await Deno.mkdir(place.runDir, { recursive: true, mode: 0o700 });
    let requests = 0;
    const server = Deno.serve({ path: place.gatewaySocket, onListen() {} }, () => {
      requests++;
      return Response.json({ ok: true, service: true });
    });
    await Deno.writeTextFile(place.gatewayPortFile, "1\n");
    await Deno.chown(place.gatewaySocket, 65534, 65534);
    const { code, text } = await sbx(["sbx", "list"]);
    assertEquals([code, requests], [0, 0], text);
    await server.shutdown();
  }));

Deno.test("a home or run folder that another user owns or may write to is refused by every program", {
  ignore: Deno.uid() !== 0,
}, () =>
  withHome(async (dir, sbx) => {
    const bad = join(dir, "bad");
    for (const variable of ["SBX_HOME", "SBX_RUN_DIR"]) {
      for (const [owner, mode] of [[65534, 0o755], [0, 0o777], [0, 0o775]]) {
        await Deno.mkdir(bad);
        await Deno.chown(bad, owner, owner);
        await Deno.chmod(bad, mode);
        for (const words of ["sbx list", "sbx-service", "sbx-gateway --port 0", "sbx-mcp", "sbx-tray"]) {
          const { code, text } = await sbx(words.split(" "), { [variable]: bad });
          assertEquals(code, 1, `${words} with ${variable} of ${owner} ${mode.toString(8)}: ${text}`);
          assertStringIncludes(text, bad);
        }
        assertEquals(await Array.fromAsync(Deno.readDir(bad)), [], "nothing is written into it");
        await Deno.remove(bad);
      }
    }
  }));
