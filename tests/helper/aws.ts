/**
 * Clients and a server of Amazon's signatures that are not sbx's own: the
 * independent judges of what it signs.
 */
import { createHash, createHmac } from "node:crypto";
import { S3Client } from "@aws-sdk/client-s3";
import { p256 } from "@noble/curves/nist.js";
import { SignatureV4 } from "@smithy/signature-v4";
import { SignatureV4a } from "@smithy/signature-v4a";
import S3rver from "s3rver";
import accounts from "s3rver/lib/models/account.js";
import type { TestNet } from "./net.ts";

/** Keys in the shape of AWS: of a person, kept on the host. */
export const AWS_KEYS = { id: "AKIDEXAMPLEREALKEY01", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };
/** As the store has them. */
export const AWS_SECRET = `${AWS_KEYS.id}:${AWS_KEYS.secret}`;

/** SHA-256 and HMAC for the library. */
class Sha256 {
  #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret as string);
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data);
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array(this.#hash.digest()));
  }
  reset(): void {}
}

type Keys = { id: string; secret: string; token?: string };

/** Signer of the library. */
export function librarySigner(keys: Keys, scope: { service: string; region?: string }): SignatureV4 {
  return new SignatureV4(optionsOf(keys, scope));
}

function optionsOf(
  { id, secret, token }: Keys,
  { service, region = "us-east-1" }: { service: string; region?: string },
) {
  return {
    credentials: {
      accessKeyId: id,
      secretAccessKey: secret,
      ...(token !== undefined && { sessionToken: token }),
    },
    service,
    region,
    sha256: Sha256 as never,
    uriEscapePath: !service.startsWith("s3"),
    applyChecksum: service.startsWith("s3"),
  };
}

/** Signer of version 4A of the library; it keeps what it signs and the key that it derives. */
export class AsymmetricSigner {
  readonly #signer: SignatureV4a;
  #key = new Uint8Array();
  #text = "";

  constructor(keys: Keys, scope: { service: string; region?: string }) {
    this.#signer = new SignatureV4a(optionsOf(keys, scope));
    // Private in its types.
    const signer = this.#signer as unknown as {
      getSignature(key: Uint8Array<ArrayBuffer>, text: string): Promise<string>;
    };
    const original = signer.getSignature.bind(signer);
    signer.getSignature = (key, text) => {
      [this.#key, this.#text] = [key, text];
      return original(key, text);
    };
  }

  async sign(request: object, signingDate: Date): Promise<{ headers: Record<string, string> }> {
    return await this.#signer.sign(request as never, { signingDate }) as never;
  }

  /** Judges a signature of the request that was signed last, by another library. */
  isRight(signature: string): boolean {
    const point = p256.getPublicKey(this.#key);
    const text = new TextEncoder().encode(this.#text);
    return p256.verify(Uint8Array.fromHex(signature), text, point, { format: "der", lowS: false });
  }
}

/** A server of S3 that verifies signatures with the real keys, and refuses any other. */
export class S3Server implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly port: number,
    readonly close: () => Promise<void>,
  ) {}

  static async open(leaf: { cert: string; key: string }, buckets: string[]): Promise<S3Server> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-s3-" });
    accounts.DUMMY_ACCOUNT.createKeyPair(AWS_KEYS.id, AWS_KEYS.secret);
    const server = new S3rver({
      address: "127.0.0.1",
      port: 0,
      silent: true,
      directory: dir,
      ...leaf,
      configureBuckets: buckets.map((name) => ({ name, configs: [] })),
    });
    const { port } = await server.run();
    return new S3Server(dir, port, async () => {
      const closed = server.close();
      server.httpServer.closeAllConnections();
      await closed;
    });
  }

  get target(): { hostname: string; port: number } {
    return { hostname: "127.0.0.1", port: this.port };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** A request of the client, as it would send it. */
interface ClientRequest {
  method: string;
  hostname: string;
  path: string;
  query: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: Uint8Array | string | AsyncIterable<Uint8Array>;
}

/**
 * Amazon's own client as a program of the guest; the bytes of its requests are
 * written to the guest's connection.
 */
export function guestS3(
  net: TestNet,
  keys: { id: string; secret: string },
  options: Record<string, unknown> = {},
): S3Client {
  return new S3Client({
    region: "us-east-1",
    endpoint: "https://s3.us-east-1.amazonaws.com",
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: keys.id, secretAccessKey: keys.secret },
    ...guestRequests(net),
    ...options,
  });
}

/** Option of Amazon's clients that makes them programs of the guest. */
export function guestRequests(net: TestNet): { requestHandler: never } {
  return { requestHandler: { handle: (request: ClientRequest) => handle(net, request) } as never };
}

async function handle(net: TestNet, request: ClientRequest) {
  const { method, hostname, path, query, headers, body } = request;
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((each) => `${encodeURIComponent(name)}=${encodeURIComponent(each ?? "")}`)
  );
  const client = await net.tls(hostname);
  const isStream = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const framing = isStream
    ? "transfer-encoding: chunked\r\n"
    : bytes === undefined
    ? ""
    : `content-length: ${(bytes as Uint8Array).length}\r\n`;
  const fields = Object.entries(headers)
    .filter(([name]) => !/^(content-length|transfer-encoding|expect)$/i.test(name))
    .map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const target = path + (pairs.length > 0 ? `?${pairs.join("&")}` : "");
  await client.send(`${method} ${target} HTTP/1.1\r\n${fields}${framing}\r\n`);
  if (isStream) {
    for await (const piece of body) {
      await client.send(`${piece.length.toString(16)}\r\n`);
      await client.send(piece);
      await client.send("\r\n");
    }
    await client.send("0\r\n\r\n");
  } else if (bytes !== undefined) await client.send(bytes as Uint8Array);
  const answer = await client.answer(method);
  client.close();
  return {
    response: {
      statusCode: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: new Blob([answer.body]).stream(),
    },
  };
}
