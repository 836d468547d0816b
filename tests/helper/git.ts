/** Git over HTTP: the real program, and a server of the real `git http-backend`. */
import { join } from "node:path";
import { limitChild, runChild } from "./child.ts";
import { TestNet } from "./net.ts";

/** Host of {@linkcode withGitGuest}. */
export const GIT_HOST = "git.example.com";

/** Variables that keep the configuration of this machine away from git. */
export const GIT_ENV = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_AUTHOR_NAME: "Ann",
  GIT_AUTHOR_EMAIL: "ann@example.com",
  GIT_COMMITTER_NAME: "Ann",
  GIT_COMMITTER_EMAIL: "ann@example.com",
};

/** Runs git. @returns its exit code, and both outputs */
export async function git(
  cwd: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await runChild("git", { args, cwd, env: { ...GIT_ENV, ...env } });
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** Runs git, which has to succeed. @returns its output */
export async function gitOk(cwd: string, ...args: string[]): Promise<string> {
  const { code, text } = await git(cwd, args);
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${text}`);
  return text.trim();
}

/** A bare repository behind `git http-backend`, and a clone of it with a commit more. */
export class GitServer implements AsyncDisposable {
  /** `METHOD path length` of the requests */
  readonly received: string[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  private constructor(readonly dir: string) {
    const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(options, (request) => this.#serve(request));
  }

  static async open(): Promise<GitServer> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-git-" });
    const bare = join(dir, "repo.git");
    await gitOk(dir, "init", "--quiet", "--bare", "--initial-branch=main", bare);
    for (const name of ["http.receivepack", "receive.advertisePushOptions", "receive.advertiseAtomic"]) {
      await gitOk(bare, "config", name, "true");
    }
    await gitOk(bare, "config", "receive.denyDeleteCurrent", "ignore");
    const server = new GitServer(dir);
    await gitOk(dir, "clone", "--quiet", bare, "work");
    await server.commit("first");
    await gitOk(server.work, "push", "--quiet", "origin", "HEAD:main", "HEAD:dev");
    await gitOk(server.work, "fetch", "--quiet");
    await server.commit("second");
    return server;
  }

  /** the clone */
  get work(): string {
    return join(this.dir, "work");
  }

  get port(): number {
    return this.#server.addr.port;
  }

  async commit(message: string): Promise<void> {
    await gitOk(this.work, "commit", "--quiet", "--allow-empty", "-m", message);
  }

  /** Refs of the repository, with their object ids. */
  async refs(): Promise<string> {
    return (await git(join(this.dir, "repo.git"), ["show-ref"])).text;
  }

  async #serve(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const body = await request.arrayBuffer();
    this.received.push(`${request.method} ${pathname} ${body.byteLength}`);
    const child = new Deno.Command("git", {
      args: ["http-backend"],
      cwd: this.dir,
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
      env: {
        ...GIT_ENV,
        GIT_PROJECT_ROOT: this.dir,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        REMOTE_USER: "ann",
        CONTENT_TYPE: request.headers.get("content-type") ?? "",
        HTTP_CONTENT_ENCODING: request.headers.get("content-encoding") ?? "",
        GIT_PROTOCOL: request.headers.get("git-protocol") ?? "",
      },
    }).spawn();
    const sent = new Response(body).body!.pipeTo(child.stdin).catch(() => {});
    const { stdout } = await limitChild(child).output();
    await sent;
    const end = new TextDecoder("latin1").decode(stdout).indexOf("\r\n\r\n");
    const lines = new TextDecoder().decode(stdout.subarray(0, end)).split("\r\n");
    const headers = lines.map((line) => line.split(": ") as [string, string]);
    const status = Number(headers.find(([name]) => name === "Status")?.[1].slice(0, 3) ?? 200);
    return new Response(stdout.slice(end + 4), { status, headers });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** A guest of a server, and its clone whose remote leads through the proxy. */
export interface GitGuest {
  server: GitServer;
  net: TestNet;
  /** of the remote */
  port: number;
}

/** Runs a test with a guest. @param rules TOML */
export async function withGitGuest(rules: string, run: (guest: GitGuest) => Promise<void>): Promise<void> {
  await using server = await GitServer.open();
  await using net = await TestNet.open({
    rules,
    target: () => ({ hostname: "127.0.0.1", port: server.port }),
  });
  const forward = net.forward(0);
  await gitOk(server.work, "remote", "set-url", "origin", `http://${GIT_HOST}:${forward.port}/repo.git`);
  await gitOk(server.work, "config", "http.curloptResolve", `${GIT_HOST}:${forward.port}:127.0.0.1`);
  try {
    await run({ server, net, port: forward.port });
  } finally {
    forward.close();
  }
}
