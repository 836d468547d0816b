/** Other programs of the network's bench. */
import { join } from "node:path";

/** Options of the other proxies. */
export interface PeerOptions {
  dir: string;
  host: string;
  upstreamPort: number;
  certFile: string;
  keyFile: string;
  rootFile: string;
}

/** A program that reads and writes lines. */
export class Peer {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#writer = child.stdin.getWriter();
    this.#reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** @param all list that it is added to, for stopping it later */
  static start(all: Peer[], program: string, args: string[]): Peer {
    const command = new Deno.Command(program, { args, stdin: "piped", stdout: "piped", stderr: "inherit" });
    const peer = new Peer(command.spawn());
    all.push(peer);
    return peer;
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** CPU time so far, in `µs`: of all its threads, as the scheduler of Linux counts it. */
  async cpuTime(): Promise<number> {
    let nanoseconds = 0;
    for await (const { name } of Deno.readDir(`/proc/${this.pid}/task`)) {
      const stat = await Deno.readTextFile(`/proc/${this.pid}/task/${name}/schedstat`).catch(() => "0");
      nanoseconds += Number(stat.split(" ")[0]);
    }
    return nanoseconds / 1000;
  }

  async write(line: string): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(line + "\n"));
  }

  async line(): Promise<string> {
    while (!this.#text.includes("\n")) {
      const { value, done } = await this.#reader.read();
      if (done) throw new Error("a program of the bench has ended");
      this.#text += value;
    }
    const end = this.#text.indexOf("\n");
    const line = this.#text.slice(0, end);
    this.#text = this.#text.slice(end + 1);
    return line;
  }

  async stop(): Promise<void> {
    await this.#writer.close().catch(() => {});
    try {
      this.#child.kill();
    } catch {
      // ended already
    }
    await this.#reader.cancel().catch(() => {});
    await this.#child.status;
  }
}

/**
 * Starts nginx as a TLS reverse proxy with one worker.
 * @returns its port, `undefined` when it is not installed
 */
export async function startNginx(all: Peer[], options: PeerOptions): Promise<number | undefined> {
  if (!await exists("nginx")) return undefined;
  const { dir, host, upstreamPort, certFile, keyFile, rootFile } = options;
  const port = freePort();
  const home = join(dir, "nginx");
  await Deno.mkdir(home);
  await Deno.writeTextFile(
    join(home, "nginx.conf"),
    `daemon off; worker_processes 1; pid ${home}/pid; error_log ${home}/error.log;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000; client_body_temp_path ${home}/a; proxy_temp_path ${home}/b;
  fastcgi_temp_path ${home}/c; uwsgi_temp_path ${home}/d; scgi_temp_path ${home}/e;
  upstream up { server 127.0.0.1:${upstreamPort}; keepalive 256; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port} ssl; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile};
    location / {
      proxy_pass https://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host ${host};
      proxy_ssl_server_name on; proxy_ssl_name ${host}; proxy_ssl_verify on; proxy_ssl_trusted_certificate ${rootFile};
      proxy_max_temp_file_size 0;
    }
  }
}
`,
  );
  Peer.start(all, "nginx", ["-c", join(home, "nginx.conf")]);
  await waitForPort(port);
  return port;
}

/** Starts mitmproxy as a TLS reverse proxy; `undefined` when it is not installed. */
export async function startMitmproxy(
  all: Peer[],
  { dir, host, upstreamPort, rootFile }: PeerOptions,
): Promise<{ port: number; caFile: string } | undefined> {
  if (!await exists("mitmdump")) return undefined;
  const port = freePort();
  const confdir = join(dir, "mitmproxy");
  Peer.start(all, "mitmdump", [
    "--quiet",
    "--mode",
    `reverse:https://127.0.0.1:${upstreamPort}`,
    "--listen-host",
    "127.0.0.1",
    "--listen-port",
    `${port}`,
    "--set",
    `confdir=${confdir}`,
    "--set",
    `ssl_verify_upstream_trusted_ca=${rootFile}`,
    "--set",
    "keep_host_header=true",
    "--set",
    "ssl_insecure=true",
    "--set",
    `certs=${host}=${await writePair(dir)}`,
  ]);
  await waitForPort(port);
  return { port, caFile: rootFile };
}

/** Writes certificate and key to one file, for mitmproxy. */
async function writePair(dir: string): Promise<string> {
  const path = join(dir, "pair.pem");
  const [key, cert] = await Promise.all(
    ["leaf.key", "leaf.crt"].map((name) => Deno.readTextFile(join(dir, name))),
  );
  await Deno.writeTextFile(path, key + cert);
  return path;
}

async function exists(program: string): Promise<boolean> {
  try {
    await new Deno.Command(program, { args: ["--help"], stdin: "null", stdout: "null", stderr: "null" })
      .output();
    return true;
  } catch {
    return false;
  }
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  return listener.addr.port;
}

async function waitForPort(port: number): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  throw new Error(`nothing listens on port ${port}`);
}
