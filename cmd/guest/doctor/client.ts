/** Trust in the CA of this machine by the clients of the image: each makes a TLS handshake through the proxy. */
import { failed, ok, oneLine, PROBE_ADDRESS, PROBE_NAME, PROBE_PORT, type Seen } from "./check.ts";

/** Where a client puts the name, so that no lookup is needed. */
const RESOLVE = `${PROBE_NAME}:${PROBE_PORT}:${PROBE_ADDRESS}`;
const URL = `https://${PROBE_NAME}/`;

const PYTHON = `
import socket, ssl
with socket.create_connection(("${PROBE_ADDRESS}", ${PROBE_PORT}), 15) as tcp:
    ssl.create_default_context().wrap_socket(tcp, server_hostname="${PROBE_NAME}").close()
`;
const NODE = `
const socket = require("tls").connect({ host: "${PROBE_ADDRESS}", port: ${PROBE_PORT}, servername: "${PROBE_NAME}" });
socket.on("secureConnect", () => socket.end(() => process.exit(0)));
socket.on("error", (error) => { console.error(error.message); process.exit(1); });
`;

/** A client, and the test that separates untrusted certificates from its other failures. */
interface Client {
  program: string;
  args: string[];
  env?: Record<string, string>;
  /** the request of a client that cannot stop after the handshake is refused by the host: that is trust */
  trusts(code: number, stderr: string): boolean;
}

const CERTIFICATE = /certificate|SSL|TLS/i;

export const CLIENTS = {
  "ca-curl": {
    program: "curl",
    args: ["-sS", "-o", "/dev/null", "--max-time", "15", "--resolve", RESOLVE, URL],
    trusts: (code) => code === 0,
  },
  "ca-python": { program: "python3", args: ["-c", PYTHON], trusts: (code) => code === 0 },
  "ca-node": { program: "node", args: ["-e", NODE], trusts: (code) => code === 0 },
  "ca-git": {
    program: "git",
    args: ["-c", `http.curloptResolve=${RESOLVE}`, "ls-remote", `${URL}probe.git`],
    env: { GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" },
    trusts: (_, stderr) => /403|blocked/.test(stderr) && !CERTIFICATE.test(stderr),
  },
} satisfies Record<string, Client>;

/** Tries one client; `undefined` where the image does not have it. */
export async function checkClient({ program, args, env, trusts }: Client): Promise<Seen> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command(program, { args, env, stdin: "null", cwd: "/" }).output();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const stderr = new TextDecoder().decode(output.stderr);
  if (trusts(output.code, stderr)) return ok("");
  return failed(lastLine(stderr) || `exit code ${output.code}`);
}

function lastLine(text: string): string {
  return oneLine(text.trim().split("\n").at(-1) ?? "");
}
