/** gRPC by Debian's python3-grpcio, at both ends: a server, and calls of a client. */
import { dirname } from "node:path";
import type { TestNet } from "./net.ts";

/** Host of the server. */
export const GRPC_HOST = "api.example.com";

/** A server of `test.Echo`: bytes in, bytes out. Prints its port. */
const SERVER = `
import sys, time, threading
from concurrent import futures
import grpc

def unary(request, context):
    context.set_trailing_metadata((("x-trailer", "t"),))
    return request + b"!"

def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")

def stream(request, context):
    for at in range(int(request)):
        yield b"m%d" % at

def collect(requests, context):
    return b"%d" % sum(len(request) for request in requests)

def chat(requests, context):
    # Speaks first, and then answers each message before the next one comes.
    context.send_initial_metadata((("x-first", "1"),))
    for request in requests:
        yield request.upper()

def slow(request, context):
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait()
    print("gone", flush=True)
    return b""

U, S, C, B = (grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler,
              grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler)
server = grpc.server(futures.ThreadPoolExecutor(32))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {
    "Unary": U(unary), "Fail": U(fail), "Stream": S(stream), "Collect": C(collect), "Chat": B(chat), "Slow": U(slow),
}),))
if len(sys.argv) > 2:
    key, cert = open(sys.argv[1], "rb").read(), open(sys.argv[2], "rb").read()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
sys.stdin.read()
server.stop(None)
`;

/** The beginning of each client: a channel, and the calls. */
const CLIENT = `
import sys, threading, queue
import grpc
port, ca = sys.argv[1], sys.argv[2]
options = [("grpc.ssl_target_name_override", "${GRPC_HOST}"), ("grpc.default_authority", "${GRPC_HOST}"),
           ("grpc.enable_http_proxy", 0)]
if ca == "-":
    channel = grpc.insecure_channel("127.0.0.1:" + port, options)
else:
    channel = grpc.secure_channel("127.0.0.1:" + port, grpc.ssl_channel_credentials(open(ca, "rb").read()), options)
unary = lambda name: channel.unary_unary("/test.Echo/" + name)
def outcome(call):
    try:
        return call()
    except grpc.RpcError as error:
        return (error.code().name, error.details())
`;

/** A running server. */
export class GrpcServer implements AsyncDisposable {
  #rest = "";

  private constructor(
    readonly port: number,
    readonly process: Deno.ChildProcess,
    readonly reader: ReadableStreamDefaultReader<string>,
  ) {}

  /** @param tls certificate and key; absent: no TLS */
  static async start(dir: string, tls?: { cert: string; key: string }): Promise<GrpcServer> {
    const files: string[] = [];
    if (tls) {
      files.push(`${dir}/grpc.key`, `${dir}/grpc.crt`);
      await Deno.writeTextFile(files[0], tls.key);
      await Deno.writeTextFile(files[1], tls.cert);
    }
    const process = new Deno.Command("/usr/bin/python3", {
      args: ["-c", SERVER, ...files],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const { value } = await reader.read();
    return new GrpcServer(Number(value), process, reader);
  }

  /** Waits for a word of the server. */
  async says(word: string): Promise<void> {
    while (!this.#rest.includes(word)) {
      const { value, done } = await this.reader.read();
      if (done) throw new Error(`the server never said ${word}`);
      this.#rest += value;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process.stdin.close();
    await this.reader.cancel();
    await this.process.status;
  }
}

/**
 * Runs calls as a program of the guest.
 * @param program Python that prints lines
 * @param port 80: without TLS
 */
export async function grpcCalls(net: TestNet, program: string, port = 443): Promise<string[]> {
  const forward = net.forward(port);
  try {
    const args = ["-c", CLIENT + program, `${forward.port}`, port === 80 ? "-" : net.caPath];
    const { code, stdout, stderr } = await new Deno.Command("/usr/bin/python3", {
      args,
      cwd: dirname(net.caPath),
    }).output();
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trimEnd().split("\n");
  } finally {
    forward.close();
  }
}
