/**
 * HTTP servers of Debian on loopback, each in its most lenient configuration. Every one of them
 * answers a request that it takes with {@linkcode MARK}, whatever its path, and its method
 * where the server has handlers.
 */
import { dirname, join } from "node:path";

/** In the answer to bytes that a server took for a request. */
export const MARK = "taken-for-a-request";

/** A server that runs. */
export interface Server {
  name: string;
  port: number;
}

/** A server that can be started; `package` is Debian's. */
export interface Kind {
  name: string;
  packages: string[];
  /** its configuration, in a folder of its own */
  files?(port: number, dir: string): Record<string, string>;
  command(port: number, dir: string): string[];
  env?(dir: string): Record<string, string>;
}

/** Debian's own Python has its packages. */
const PYTHON = "/usr/bin/python3";

const HANDLER = `
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = b"${MARK}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)
    def log_message(self, *_):
        pass
ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`;

const WSGI = `
BODY = b"${MARK}"
def app(environ, start):
    if not environ["REQUEST_METHOD"]:
        start("400 Bad Request", [("Content-Length", "0")])
        return []
    start("200 OK", [("Content-Length", str(len(BODY)))])
    return [BODY]
`;

const ASGI = `
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"${MARK}"})
`;

const AIOHTTP = `
import sys
from aiohttp import web
async def answer(request):
    return web.Response(text="${MARK}")
app = web.Application()
app.router.add_route("*", "/{tail:.*}", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
`;

const NODE = `
const http = require("http");
const server = http.createServer({insecureHTTPParser: true}, (request, response) => response.end("${MARK}"));
server.on("connect", (_, socket) => socket.end("HTTP/1.1 200 OK\\r\\n\\r\\n${MARK}"));
server.listen(+process.argv[2], "127.0.0.1");
`;

const GO = `
package main
import ("net/http"; "os")
func main() {
	http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("${MARK}"))
	}))
}
`;

const WEBRICK = `
require "webrick"
class Answer < WEBrick::HTTPServlet::AbstractServlet
  def service(_, response) = response.body = "${MARK}"
end
silent = WEBrick::Log.new(File::NULL)
server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ARGV[0].to_i, Logger: silent, AccessLog: [], MaxClients: 500)
server.mount("/", Answer)
server.start
`;

const nginx = (port: number, dir: string, listen: string, more = "") => `
daemon off; master_process off; pid ${dir}/pid; error_log /dev/null;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi; scgi_temp_path ${dir}/scgi; ignore_invalid_headers off; underscores_in_headers on;
  merge_slashes off;
  server { listen 127.0.0.1:${port} ${listen}; ${more} location / { return 200 "${MARK}"; } }
}`;

const python = (script: string) => ({
  files: () => ({ "serve.py": script }),
  command: (port: number, dir: string) => [PYTHON, join(dir, "serve.py"), String(port)],
});

/** Served by what serves files: a page for any of the probes' paths. */
const PAGES = Object.fromEntries(["admin", "index.html", "key", "x"].map((name) => [`www/${name}`, MARK]));

export const KINDS: readonly Kind[] = [
  {
    name: "nginx",
    packages: ["nginx-light"],
    files: (port, dir) => ({ "nginx.conf": nginx(port, dir, "") }),
    command: (_, dir) => ["nginx", "-p", dir, "-c", join(dir, "nginx.conf")],
  },
  {
    name: "nginx behind a balancer",
    packages: ["nginx-light"],
    files: (port, dir) => ({ "nginx.conf": nginx(port, dir, "proxy_protocol") }),
    command: (_, dir) => ["nginx", "-p", dir, "-c", join(dir, "nginx.conf")],
  },
  {
    name: "nginx with HTTP/2",
    packages: ["nginx-light"],
    files: (port, dir) => ({ "nginx.conf": nginx(port, dir, "http2") }),
    command: (_, dir) => ["nginx", "-p", dir, "-c", join(dir, "nginx.conf")],
  },
  {
    name: "apache",
    packages: ["apache2"],
    files: (port, dir) => ({
      ...PAGES,
      "apache.conf": `
ServerRoot ${dir}
ServerName localhost
Listen 127.0.0.1:${port}
PidFile ${dir}/pid
ErrorLog /dev/null
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
User www-data
Group www-data
HttpProtocolOptions Unsafe LenientMethods Allow0.9
DocumentRoot ${dir}/www
ErrorDocument 403 ${MARK}
ErrorDocument 404 ${MARK}
ErrorDocument 405 ${MARK}
ErrorDocument 501 ${MARK}
<Directory ${dir}/www>
Require all granted
</Directory>`,
    }),
    command: (_, dir) => ["apache2", "-d", dir, "-f", join(dir, "apache.conf"), "-DFOREGROUND"],
  },
  {
    name: "lighttpd",
    packages: ["lighttpd"],
    files: (port, dir) => ({
      ...PAGES,
      "lighttpd.conf": `
server.document-root = "${dir}/www"
server.bind = "127.0.0.1"
server.port = ${port}
server.http-parseopts = ("header-strict" => "disable", "host-strict" => "disable", "host-normalize" => "disable", "url-normalize" => "disable", "method-get-body" => "enable")
index-file.names = ("index.html")
`,
    }),
    command: (_, dir) => ["lighttpd", "-D", "-f", join(dir, "lighttpd.conf")],
  },
  {
    name: "busybox",
    packages: ["busybox"],
    files: () => PAGES,
    command: (port, dir) => ["busybox", "httpd", "-f", "-p", `127.0.0.1:${port}`, "-h", join(dir, "www")],
  },
  {
    name: "python",
    packages: ["python3"],
    files: () => ({ "serve.py": HANDLER }),
    command: (port, dir) => ["python3", join(dir, "serve.py"), String(port)],
  },
  {
    name: "python with files",
    packages: ["python3"],
    files: () => PAGES,
    command: (
      port,
      dir,
    ) => [PYTHON, "-m", "http.server", "--bind", "127.0.0.1", "-d", join(dir, "www"), String(port)],
  },
  {
    name: "aiohttp",
    packages: ["python3-aiohttp"],
    ...python(AIOHTTP),
    env: () => ({ AIOHTTP_NO_EXTENSIONS: "1" }),
  },
  {
    name: "gunicorn",
    packages: ["gunicorn"],
    files: () => ({ "app.py": WSGI }),
    command: (port, dir) => [
      "gunicorn",
      "-k",
      "gthread",
      "--threads",
      "64",
      "--chdir",
      dir,
      "-b",
      `127.0.0.1:${port}`,
      "app:app",
    ],
  },
  {
    name: "uvicorn",
    packages: ["uvicorn"],
    files: () => ({ "app.py": ASGI }),
    command: (port, dir) => [
      "uvicorn",
      "--http",
      "h11",
      "--log-level",
      "critical",
      "--app-dir",
      dir,
      "--port",
      String(port),
      "app:app",
    ],
  },
  {
    name: "waitress",
    packages: ["python3-waitress"],
    ...python(`${WSGI}
import sys, waitress
waitress.serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=64)
`),
  },
  {
    name: "werkzeug",
    packages: ["python3-werkzeug"],
    ...python(`${WSGI}
import sys, logging
from werkzeug.serving import run_simple
logging.getLogger("werkzeug").setLevel(100)
run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
`),
  },
  {
    name: "node",
    packages: ["nodejs"],
    files: () => ({ "serve.cjs": NODE }),
    command: (port, dir) => ["node", join(dir, "serve.cjs"), String(port)],
  },
  {
    name: "go",
    packages: ["golang-go"],
    files: () => ({ "main.go": GO }),
    command: (
      port,
      dir,
    ) => ["sh", "-c", `go build -o ${dir}/serve ${dir}/main.go && exec ${dir}/serve ${port}`],
    env: (dir) => ({ GOCACHE: join(dir, "cache"), GO111MODULE: "off" }),
  },
  {
    name: "webrick",
    packages: ["ruby", "ruby-webrick"],
    files: () => ({ "serve.rb": WEBRICK }),
    command: (port, dir) => ["ruby", join(dir, "serve.rb"), String(port)],
  },
  {
    name: "tomcat",
    packages: ["tomcat10", "default-jre-headless"],
    files: (port, dir) => ({
      ...Object.fromEntries(Object.keys(PAGES).map((path) => [path.replace("www/", "webapps/ROOT/"), MARK])),
      "conf/web.xml": `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
<servlet><servlet-name>default</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class></servlet>
<servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping></web-app>`,
      "conf/server.xml": `<Server port="-1"><Service name="Catalina">
<Connector address="127.0.0.1" port="${port}" protocol="HTTP/1.1" rejectIllegalHeader="false" relaxedPathChars="&lt;&gt;[\\]^\`{|}" relaxedQueryChars="&lt;&gt;[\\]^\`{|}" />
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="${dir}/webapps" /></Engine></Service></Server>`,
      "logs/empty": "",
      "temp/empty": "",
    }),
    command: (_, dir) => [
      "java",
      `-Dcatalina.home=/usr/share/tomcat10`,
      `-Dcatalina.base=${dir}`,
      `-Djava.io.tmpdir=${dir}/temp`,
      "-cp",
      "/usr/share/tomcat10/bin/bootstrap.jar:/usr/share/tomcat10/bin/tomcat-juli.jar",
      "org.apache.catalina.startup.Bootstrap",
      "start",
    ],
  },
  {
    name: "caddy",
    packages: ["caddy"],
    files: (port) => ({
      Caddyfile: `{\n admin off\n}\nhttp://:${port} {\n bind 127.0.0.1\n respond "${MARK}"\n}\n`,
    }),
    command: (_, dir) => ["caddy", "run", "--adapter", "caddyfile", "--config", join(dir, "Caddyfile")],
    env: (dir) => ({ HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir }),
  },
];

/** Limit in `ms` of a server's start; Go compiles its own first. */
const START_MS = 180_000;

/** Servers that run, and the end of them. */
export class Servers implements AsyncDisposable {
  readonly running: Server[] = [];
  readonly #children: Deno.ChildProcess[] = [];

  private constructor(readonly dir: string) {}

  /** @param kinds those to start @throws {Error} one did not start */
  static async start(kinds: readonly Kind[]): Promise<Servers> {
    const servers = new Servers(await Deno.makeTempDir({ prefix: "sbx-http-" }));
    await Deno.chmod(servers.dir, 0o755);
    try {
      await Promise.all(kinds.map((kind, at) => servers.#start(kind, at)));
    } catch (error) {
      await servers[Symbol.asyncDispose]();
      throw error;
    }
    return servers;
  }

  async #start({ name, files, command, env }: Kind, at: number): Promise<void> {
    const dir = join(this.dir, String(at));
    const port = freePort();
    await Deno.mkdir(dir);
    for (const [path, text] of Object.entries(files?.(port, dir) ?? {})) {
      await Deno.mkdir(dirname(join(dir, path)), { recursive: true });
      await Deno.writeTextFile(join(dir, path), text);
    }
    const [program, ...args] = command(port, dir);
    const child = new Deno.Command(program, {
      args,
      cwd: dir,
      env: env?.(dir) ?? {},
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#children.push(child);
    let said = "";
    const reading = child.stderr.pipeThrough(new TextDecoderStream())
      .pipeTo(new WritableStream({ write: (text) => void (said = (said + text).slice(-2000)) }));
    let ended = false;
    child.status.then(() => ended = true);
    reading.catch(() => {});
    const until = Date.now() + START_MS;
    while (!await answers(port)) {
      if (ended || Date.now() > until) throw new Error(`${name} did not start: ${said.trim()}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    this.running.push({ name, port });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      try {
        child.kill("SIGTERM");
      } catch {
        // ended already
      }
    }
    await Promise.all(this.#children.map(async (child) => {
      const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await child.status;
      clearTimeout(timer);
    }));
    await Deno.remove(this.dir, { recursive: true });
  }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function answers(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}

/** Time in `ms` for an answer, and again after the end of what was sent. */
const ANSWER_MS = 250;
/** Statuses of bytes that a server took for no request. */
const REFUSED = new Set([400, 408, 413, 414, 417, 431, 501, 505]);

/**
 * Sends bytes to a server, and then the end of them.
 *
 * @returns true when the server took them for a request; whether it did before their end
 */
export async function takes(port: number, bytes: Uint8Array): Promise<boolean> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  let got = "";
  let ended = false;
  const taken = Promise.withResolvers<void>();
  const read = async () => {
    const buffer = new Uint8Array(16 * 1024);
    while (true) {
      const count = await conn.read(buffer).catch(() => null);
      if (count === null) break;
      got += String.fromCharCode(...buffer.subarray(0, count));
      if (isTaken(got)) break;
    }
    ended = true;
    taken.resolve();
  };
  const reading = read();
  try {
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
    await Promise.race([taken.promise, pause()]);
    if (!ended) {
      await conn.closeWrite();
      await Promise.race([taken.promise, pause()]);
    }
  } catch {
    // A server that resets has refused them, or answered before.
  }
  try {
    conn.close();
  } catch {
    // closed already
  }
  await reading;
  return isTaken(got);
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
}

function isTaken(answer: string): boolean {
  if (answer.includes(MARK)) return true;
  const [, status] = /^HTTP\/\d\.\d (\d{3})/.exec(answer) ?? [];
  return status !== undefined && status !== "100" && !REFUSED.has(Number(status));
}
