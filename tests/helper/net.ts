/**
 * A guest's network for tests: the real proxy behind a Unix socket in place of vsock,
 * and real upstreams on loopback.
 */
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";
import { CredentialBroker, CredentialStore, type Provider } from "../../lib/credential/mod.ts";
import { type CredentialPort, type NetOptions, NetProxy, type NetTimeouts } from "../../lib/network/mod.ts";
import { runChild } from "./child.ts";
import type { GateOptions } from "../../lib/session/gate/mod.ts";
import { TestGate } from "./gate.ts";
import { RawClient } from "./net_client.ts";
import { eventually } from "./sbx.ts";

/** Address of upstreams, from a documentation network: policy does not count it as private. */
export const ADDRESS = "203.0.113.7";

export interface TestNetOptions {
  rules?: string;
  timeouts?: Partial<NetTimeouts>;
  broker?: CredentialPort;
  /** DNS answers of the guest; default: every name is at {@linkcode ADDRESS} */
  agrees?(name: string, address: string): boolean;
  /** address to connect to, by host and port */
  target?: NetOptions["dialOverride"];
  models?: NetOptions["models"];
  cache?: NetOptions["cache"];
  /** folder of the CA of upstreams; absent: the guest's world is its own */
  upstreamDir?: string;
  /** how upstreams are reached */
  connect?: NetOptions["connect"];
  lookup?: NetOptions["names"]["lookup"];
  nameOf?: NetOptions["names"]["nameOf"];
  /** false: guests get HTTP/1.1 only */
  http2?: boolean;
  /** true: events of WebSockets have their messages */
  recordsMessages?: boolean;
  /** services of descriptors */
  grpcTypes?: NetOptions["grpcTypes"];
  /** what findings hold back */
  hold?: GateOptions["hold"];
}

/** One guest with its proxy. */
export class TestNet implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly gate: TestGate,
    readonly proxy: NetProxy,
    /** PEM of the CA that the guest trusts */
    readonly caCert: string,
    readonly caPath: string,
    /** PEM of the CA of upstreams, which the proxy trusts */
    readonly roots: string,
    /** certificate and key of an upstream */
    readonly leaf: (name: string) => Promise<{ cert: string; key: string }>,
    readonly ownBroker: CredentialBroker | undefined,
  ) {}

  readonly #serving: Promise<void>[] = [];

  static async open(options: TestNetOptions = {}): Promise<TestNet> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-net-" });
    const ca = await openCa({ dir });
    // Upstreams have a CA of their own.
    const roots = await openCa({ dir: options.upstreamDir ?? join(dir, "upstream") });
    const ownBroker = options.broker ? undefined : await testBroker(dir);
    const { broker = ownBroker, hold } = options;
    const gate = new TestGate(options.rules, {
      ...(hold && { hold }),
      ...(broker instanceof CredentialBroker && { decoyIn: (event) => broker.decoyIn(event) }),
    });
    const proxy = new NetProxy({
      gate,
      ca,
      names: {
        agrees: options.agrees ?? ((_, address) => address === ADDRESS),
        nameOf: options.nameOf ?? (() => undefined),
        lookup: options.lookup ?? (() => Promise.resolve([ADDRESS])),
      },
      broker: options.broker ?? ownBroker!,
      caCerts: [roots.certificate],
      ...(options.timeouts && { timeouts: options.timeouts }),
      ...(options.target && { dialOverride: options.target }),
      ...(options.connect && { connect: options.connect }),
      ...(options.models && { models: options.models }),
      ...(options.cache && { cache: options.cache }),
      ...(options.http2 !== undefined && { http2: options.http2 }),
      ...(options.recordsMessages && { recordsMessages: true }),
      ...(options.grpcTypes && { grpcTypes: options.grpcTypes }),
    });
    const caPath = join(dir, "guest-ca.pem");
    await Deno.writeTextFile(caPath, ca.certificate);
    return new TestNet(
      dir,
      gate,
      proxy,
      ca.certificate,
      caPath,
      roots.certificate,
      (name) => roots.leaf(name),
      ownBroker,
    );
  }

  /** Opens a connection of the guest. */
  async connect(port: number, address = ADDRESS): Promise<Deno.Conn> {
    const [guest, host] = await socketPair(join(this.dir, `${crypto.randomUUID()}.sock`));
    const open = { host_ip: address, port, process_name: "curl", pid: 42 };
    this.#serving.push(this.proxy.serve(host, open, new Uint8Array()));
    return guest;
  }

  /** Opens a client of a plain connection. */
  async client(port = 80, address = ADDRESS): Promise<RawClient> {
    return new RawClient(await this.connect(port, address));
  }

  /** Opens a client of a TLS connection. */
  async tls(name: string, port = 443, address = ADDRESS): Promise<RawClient> {
    const forward = this.forward(port, address);
    const tcp = await Deno.connect({ hostname: "127.0.0.1", port: forward.port });
    const tls = await Deno.startTls(tcp, {
      hostname: name,
      caCerts: [this.caCert],
      alpnProtocols: ["http/1.1"],
    });
    await tls.handshake().finally(() => forward.close());
    return new RawClient(tls);
  }

  /** Runs curl as a program of the guest. */
  async curl(url: string, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const { hostname, port, protocol } = new URL(url);
    const number = Number(port || (protocol === "https:" ? 443 : 80));
    const forward = this.forward(number);
    const { code, stdout, stderr } = await runChild("curl", {
      args: ["-sS", "-i", "--max-time", "20", "--cacert", this.caPath, "--connect-to"].concat(
        `${hostname}:${number}:127.0.0.1:${forward.port}`,
        args,
        url,
      ),
    });
    forward.close();
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  }

  /** Waits until every connection of the guest is closed. */
  async idle(): Promise<void> {
    await eventually("every connection is closed", () => this.proxy.size.guests === 0, 20);
  }

  /** Opens a TCP port on loopback that leads into the proxy, for programs. @param port 0: the opened port */
  forward(port: number, address = ADDRESS): { port: number; close(): void } {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const accept = async () => {
      for await (const conn of listener) {
        const open = { host_ip: address, port: port || listener.addr.port, process_name: "curl", pid: 42 };
        this.#serving.push(this.proxy.serve(conn, open, new Uint8Array()));
      }
    };
    accept();
    return { port: listener.addr.port, close: () => listener.close() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.proxy.close();
    await Promise.allSettled(this.#serving);
    await this.ownBroker?.close();
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** Opens a broker with an empty store below a folder. */
export async function testBroker(dir: string, providers: Provider[] = []): Promise<CredentialBroker> {
  const store = new CredentialStore(join(dir, "credentials", "store.json"));
  return await CredentialBroker.open({ store, providers });
}

async function socketPair(path: string): Promise<[Deno.UnixConn, Deno.UnixConn]> {
  const listener = Deno.listen({ transport: "unix", path });
  const [guest, host] = await Promise.all([Deno.connect({ transport: "unix", path }), listener.accept()]);
  listener.close();
  await Deno.remove(path).catch(() => {});
  return [guest, host as Deno.UnixConn];
}
