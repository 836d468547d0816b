import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Endpoint } from "./address.ts";
import { SbxError } from "./error.ts";

/** Longest wait for SSH, in `ms`: a person may have to type a password, or touch a key. */
const CONNECT_MS = 120_000;
/** Most characters of the other machine's first answer. */
const ANSWER_MAX = 4096;

/**
 * The gateway of another machine, through ssh(1), which asks and trusts as the user has set it
 * up. One connection reports its port and token, and forwards a socket in a private folder to
 * it; it ends with this process.
 */
export async function sshEndpoint(url: URL): Promise<Endpoint> {
  // ssh(1) would take it for an option.
  if (!/^[\w[]/.test(url.hostname) || /^-/.test(decodeURIComponent(url.username)) || url.password) {
    throw new SbxError(
      "host.invalid",
      "an address by ssh has no password, and names begin with a letter or digit",
    );
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const where = [
    ...(url.port ? ["-p", url.port] : []),
    ...(url.username ? ["-l", decodeURIComponent(url.username)] : []),
  ];
  const folder = mkdtempSync(join(tmpdir(), "sbx-host-"));
  const [control, socket] = [join(folder, "c"), join(folder, "g")];
  const master = spawn(
    "ssh",
    ["-M", "-S", control, "-o", "ControlPersist=no", "-T", ...where, "--", host, remoteScript(url)],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const close = () => {
    master.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", close);
  const lost = (reason: string, cause?: unknown) => {
    close();
    return new SbxError("host.unreachable", `sbx on ${url.host} cannot be reached: ${reason}`, {
      cause,
      hint: `try ssh ${[...where, host].join(" ")} sbx status`,
    });
  };
  const [port = "", token = ""] = await firstLines(master).catch((cause) => {
    throw lost("ssh ended, or sbx does not run there", cause);
  });
  if (!/^\d{1,5}$/.test(port) || !/^[\w-]{16,}$/.test(token)) {
    throw lost("it gave no port and token of a gateway");
  }
  const forward = spawn(
    "ssh",
    ["-S", control, "-O", "forward", "-L", `${socket}:127.0.0.1:${port}`, ...where, "--", host],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  const code = await new Promise((resolve) => forward.once("exit", resolve));
  if (code !== 0) throw lost("ssh does not forward connections");
  // They must not keep this process alive.
  master.unref();
  for (const stream of [master.stdin, master.stdout]) (stream as unknown as { unref?(): void }).unref?.();
  return { socket, secure: false, hostname: "127.0.0.1", port: 80, token: () => token, close };
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

function firstLines(master: ReturnType<typeof spawn>): Promise<string[]> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error("no answer in time")), CONNECT_MS);
    const end = (error: Error) => {
      clearTimeout(timer);
      reject(error);
    };
    master.once("error", end);
    master.once("exit", () => end(new Error("ssh ended")));
    master.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
      if (lines.length >= 2 && text.endsWith("\n")) {
        clearTimeout(timer);
        resolve(lines);
      } else if (text.length > ANSWER_MAX) end(new Error("too long an answer"));
    });
  });
}
