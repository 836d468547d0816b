/**
 * A refused connection tells its guest why, whatever was refused, before it
 * ends; an allowed one tells nothing.
 */
import { assertEquals, assertMatch } from "@std/assert";
import type { ByteStream } from "../../../lib/network/connection.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

/** A guest's stream that sends some bytes, and notes what it is told. */
class ToldStream implements ByteStream {
  readonly told: string[] = [];
  #bytes: Uint8Array;
  #end = Promise.withResolvers<null>();

  constructor(text: string) {
    this.#bytes = new TextEncoder().encode(text);
  }

  read(into: Uint8Array): Promise<number | null> {
    const piece = this.#bytes.subarray(0, into.length);
    into.set(piece);
    this.#bytes = this.#bytes.subarray(piece.length);
    return piece.length > 0 ? Promise.resolve(piece.length) : this.#end.promise;
  }

  write(bytes: Uint8Array): Promise<number> {
    return Promise.resolve(bytes.length);
  }

  refuse(line: string): Promise<void> {
    this.told.push(line);
    return Promise.resolve();
  }

  close(): void {
    this.#end.resolve(null);
  }
}

Deno.test("raw TCP, and TLS that cannot be read, are refused with a line", async () => {
  await using net = await TestNet.open();
  const open = { host_ip: ADDRESS, port: 22, process_name: "ssh", pid: 7 };
  const raw = new ToldStream("EHLO x\r\n");
  await net.proxy.serve(raw, { ...open, port: 25 }, new Uint8Array());
  assertEquals(raw.told.length, 1);
  assertMatch(
    raw.told[0],
    /^blocked by policy: traffic other than .* \(rule "block-raw-tcp"\); ask your user$/,
  );
  const tls = new ToldStream("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00");
  await net.proxy.serve(tls, { ...open, port: 443 }, new Uint8Array());
  assertMatch(tls.told.join(), /"guard-malformed-tls"/);
});

Deno.test("a connection that a rule allows is told nothing when it ends", async () => {
  const upstream = fixedUpstream("");
  await using net = await TestNet.open({
    rules: `[profiles.rules.ssh]\naction = "allow"\nmatch = 'http.request.scheme == "tcp"'`,
    target: () => upstream.target,
  });
  const stream = new ToldStream("SSH-2.0-x\r\n");
  const serving = net.proxy.serve(
    stream,
    { host_ip: ADDRESS, port: 22, process_name: "ssh", pid: 7 },
    new Uint8Array(),
  );
  upstream.close();
  net.proxy.close();
  await serving;
  assertEquals(stream.told, []);
});
