/**
 * Proxies of Debian, each as a company runs it: squid (http, TLS, password), tinyproxy and microsocks.
 * Skipped where they are missing.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { HostNetwork, type ProxySettings, readProxies } from "../../../../lib/base/proxy/mod.ts";
import { openCa } from "../../../../lib/network/ca/mod.ts";
import { runChild } from "../../../helper/child.ts";

const hasAll = async (...names: string[]) =>
  (await runChild("sh", { args: ["-c", names.map((name) => `command -v ${name}`).join(" && ")] })).success;

/** An address of this machine beside loopback, which no proxy is asked for. */
const ADDRESS = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
const ANSWERS = ["plain /one", "safe /two", "plain /three"];

/** A server by plain http and by TLS, and the proxies that run. */
class Place implements AsyncDisposable {
  readonly #children: Deno.ChildProcess[] = [];

  private constructor(
    readonly dir: string,
    readonly certificate: string,
    readonly plain: Deno.HttpServer<Deno.NetAddr>,
    readonly safe: Deno.HttpServer<Deno.NetAddr>,
  ) {}

  static async open(): Promise<Place> {
    const dir = await Deno.makeTempDir();
    // squid becomes another user.
    await Deno.chmod(dir, 0o777);
    const ca = await openCa({ dir });
    const own = await ca.leaf("localhost");
    await Deno.writeTextFile(join(dir, "leaf.pem"), own.cert + own.key, { mode: 0o644 });
    const options = { hostname: "0.0.0.0", port: 0, onListen() {} };
    const answer = (kind: string) => ({ url }: Request) => new Response(`${kind} ${new URL(url).pathname}`);
    const plain = Deno.serve(options, answer("plain"));
    const safe = Deno.serve({ ...options, ...await ca.leaf(ADDRESS!) }, answer("safe"));
    return new Place(dir, ca.certificate, plain, safe);
  }

  /** A port that is free now. */
  port(): number {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    return listener.addr.port;
  }

  async write(name: string, text: string): Promise<string> {
    const path = join(this.dir, name);
    await Deno.writeTextFile(path, text, { mode: 0o600 });
    return path;
  }

  /** Runs a program until it takes connections at a port. */
  async run(port: number, program: string, ...args: string[]): Promise<void> {
    const child = new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
    this.#children.push(child);
    let ended = false;
    child.status.then(() => ended = true);
    for (;;) {
      const conn = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => undefined);
      if (conn) return conn.close();
      assert(!ended, `${program} ended`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async network(settings: ProxySettings): Promise<HostNetwork> {
    return new HostNetwork(await readProxies(settings), [this.certificate]);
  }

  /** Asks both servers by a request, and the plain one by a connection. */
  async ask(settings: ProxySettings): Promise<string[]> {
    using network = await this.network(settings);
    const [plain, safe] = [this.plain.addr.port, this.safe.addr.port];
    const texts: string[] = [];
    for (const url of [`http://${ADDRESS}:${plain}/one`, `https://${ADDRESS}:${safe}/two`]) {
      texts.push(await (await network.fetch(url)).text());
    }
    using conn = await network.connect({ hostname: ADDRESS!, port: plain });
    await conn.write(new TextEncoder().encode(`GET /three HTTP/1.0\r\nhost: ${ADDRESS}\r\n\r\n`));
    texts.push((await new Response(conn.readable).text()).split("\r\n").at(-1)!);
    return texts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGTERM");
      await child.status;
    }
    await Promise.all([this.plain.shutdown(), this.safe.shutdown()]);
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test({
  name: "squid by http, by TLS and by a PAC file, with a password",
  ignore: ADDRESS === undefined || !await hasAll("squid", "openssl"),
  fn: async () => {
    await using place = await Place.open();
    const { dir } = place;
    const [http, https] = [place.port(), place.port()];
    const hash = await runChild("openssl", { args: ["passwd", "-apr1", "p@ss"] });
    await Deno.writeTextFile(join(dir, "users"), `ann:${new TextDecoder().decode(hash.stdout)}`, {
      mode: 0o644,
    });
    const conf = await place.write(
      "squid.conf",
      `http_port 127.0.0.1:${http}
https_port 127.0.0.1:${https} tls-cert=${dir}/leaf.pem
auth_param basic program /usr/lib/squid/basic_ncsa_auth ${dir}/users
acl known proxy_auth REQUIRED
http_access allow known
cache deny all
pid_filename ${dir}/squid.pid
access_log stdio:${dir}/access.log
cache_log ${dir}/cache.log
coredump_dir ${dir}
shutdown_lifetime 0 seconds
pinger_enable off
`,
    );
    await Deno.chmod(conf, 0o644);
    // A name of its own keeps its shared memory from those of others.
    await place.run(https, "squid", "-N", "-n", `t${https}`, "-f", conf);
    const auth_file = await place.write("auth", "ann:p@ss\n");
    const pac = await place.write(
      "proxy.pac",
      `function FindProxyForURL(url, host) {
        return isInNet(host, "${ADDRESS}", "255.255.255.255") ? "PROXY 127.0.0.1:1; HTTPS localhost:${https}" : "DIRECT";
      }`,
    );
    for (const url of [`http://127.0.0.1:${http}`, `https://localhost:${https}`, `pac+file://${pac}`]) {
      assertEquals(await place.ask({ url, auth_file }), ANSWERS, url);
    }
    const error = await assertRejects(() => place.ask({ url: `https://localhost:${https}` }));
    assert(!String(error).includes("p@ss"));
    using network = await place.network({ url: `https://localhost:${https}` });
    const refused = await assertRejects(() => network.connect({ hostname: ADDRESS!, port: 1 }), SbxError);
    assertEquals(refused.code, "network.proxy.failed");
    assert(refused.message.includes("407"), refused.message);
    // Another authority's certificate is no proxy of this machine.
    using strange = new HostNetwork(await readProxies({ url: `https://localhost:${https}`, auth_file }));
    const untrusted = await assertRejects(() => strange.connect({ hostname: ADDRESS!, port: 1 }), SbxError);
    assert(untrusted.message.includes("certificate"), untrusted.message);
  },
});

Deno.test({
  name: "tinyproxy, and microsocks with a password",
  ignore: ADDRESS === undefined || !await hasAll("tinyproxy", "microsocks"),
  fn: async () => {
    await using place = await Place.open();
    const [tiny, socks] = [place.port(), place.port()];
    const conf = await place.write(
      "tiny.conf",
      `Port ${tiny}\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\n`,
    );
    await place.run(tiny, "tinyproxy", "-d", "-c", conf);
    assertEquals(await place.ask({ url: `http://127.0.0.1:${tiny}` }), ANSWERS);
    await place.run(socks, "microsocks", "-i", "127.0.0.1", "-p", String(socks), "-u", "ann", "-P", "p@ss");
    const url = `socks5://127.0.0.1:${socks}`;
    const auth_file = await place.write("auth", "ann:p@ss\n");
    assertEquals(await place.ask({ url, auth_file }), ANSWERS);
    await place.write("auth", "ann:wrong\n");
    using network = await place.network({ url, auth_file });
    const error = await assertRejects(() => network.connect({ hostname: ADDRESS!, port: 1 }), SbxError);
    assert(error.message.includes("refused the user and password"), error.message);
    using open = await place.network({ url });
    const closed = await assertRejects(() => open.connect({ hostname: ADDRESS!, port: 1 }), SbxError);
    assert(closed.message.includes("wants a user and a password"), closed.message);
  },
});
