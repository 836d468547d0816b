import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { Client } from "../client.ts";

/** Longest wait for SSH, in `ms`: a person may have to type a password, or touch a key. */
const CONNECT_MS = timeLimit(120_000);
/** Most characters of the other machine's first answer. */
const ANSWER_MAX = 4096;

/**
 * A client through ssh(1), which asks and trusts as the user has set it up. One connection reports port and
 * token of the other machine's gateway, started there if possible, and forwards a Unix socket in a private
 * folder to it. It ends with this process: the other side reads this process's standard input.
 *
 * @throws {SbxError} `host.unreachable`
 */
export async function connectBySsh(url: URL): Promise<Client> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const where = [
    ...url.port ? ["-p", url.port] : [],
    ...url.username ? ["-l", decodeURIComponent(url.username)] : [],
  ];
  const folder = await Deno.makeTempDir({ prefix: "sbx-host-" });
  globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
  const [control, socket] = [join(folder, "c"), join(folder, "g")];
  const master = new Deno.Command("ssh", {
    args: ["-M", "-S", control, "-o", "ControlPersist=no", "-T", ...where, "--", host, remoteScript(url)],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  // It must not keep this process alive, and ends with it.
  master.unref();
  const lost = (reason: string) =>
    new SbxError("host.unreachable", `sbx on ${url.host} cannot be reached: ${reason}`, {
      hint: `try ssh ${[...where, host].join(" ")} sbx status`,
    });
  const [port, token] = await firstLines(master.stdout, 2).catch(() => {
    throw lost("ssh ended, or sbx does not run there");
  });
  if (!/^\d{1,5}$/.test(port) || !/^[\w-]{16,}$/.test(token)) {
    throw lost("it gave no port and token of a gateway");
  }
  const forward = await new Deno.Command("ssh", {
    args: ["-S", control, "-O", "forward", "-L", `${socket}:127.0.0.1:${port}`, ...where, "--", host],
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).output();
  if (!forward.success) throw lost("ssh does not forward connections");
  const http = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
  // The name that a gateway accepts.
  return new Client("http://127.0.0.1", token, http);
}

/** Prints port and token of the gateway on the other machine, then waits for the end of its input. */
function remoteScript({ pathname }: URL): string {
  const path = decodeURIComponent(pathname);
  const home = path === "/" || path === "" ? "" : `SBX_HOME=${quoted(path)}; export SBX_HOME; `;
  return home + "d=${SBX_HOME:-$HOME/.sbx}/run; " +
    "command -v sbx >/dev/null && { sbx start >/dev/null || exit; }; " +
    'cat "$d/gateway.port" && echo && cat "$d/gateway.token" && echo && exec cat >/dev/null';
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** @throws {Error} the stream ended before, or was silent for too long */
async function firstLines(stream: ReadableStream<Uint8Array>, count: number): Promise<string[]> {
  const reader = stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
    .getReader();
  const timer = setTimeout(() => reader.cancel(), CONNECT_MS);
  try {
    for (let text = ""; text.length < ANSWER_MAX;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
      if (lines.length >= count && text.endsWith("\n")) return lines;
    }
  } finally {
    clearTimeout(timer);
  }
  throw new Error("too few lines");
}
