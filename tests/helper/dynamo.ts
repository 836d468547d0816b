/** A server of DynamoDB: dynalite of npm, behind a judge of signatures, since dynalite takes any. */
import dynalite from "dynalite";
import type { AddressInfo } from "node:net";
import { createServer, type Server } from "node:https";
import { AWS_KEYS, librarySigner } from "./aws.ts";
import { joinBytes } from "../../lib/base/bytes/mod.ts";

/** A request that reached it, and whether Amazon's library signs it so with the real keys. */
export interface DynamoRequest {
  operation: string;
  isSigned: boolean;
}

export class DynamoServer implements AsyncDisposable {
  readonly requests: DynamoRequest[] = [];

  private constructor(readonly port: number, readonly close: () => Promise<void>) {}

  static async open(leaf: { cert: string; key: string }): Promise<DynamoServer> {
    const tables = dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 });
    await listen(tables);
    const origin = `http://127.0.0.1:${(tables.address() as AddressInfo).port}/`;
    const front: Server = createServer(leaf, async (request, response) => {
      const pieces: Uint8Array[] = [];
      for await (const piece of request) pieces.push(piece);
      const body = joinBytes(pieces);
      const headers = Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, `${value}`]),
      );
      const isSigned = await isOurs(request.method!, request.url!, headers, body);
      const operation = `${headers["x-amz-target"]}`.split(".")[1];
      server.requests.push({ operation, isSigned });
      if (!isSigned) {
        const type = "com.amazon.coral.service#InvalidSignatureException";
        response.writeHead(400, { "content-type": "application/x-amz-json-1.0" })
          .end(JSON.stringify({ __type: type, message: "the signature does not match" }));
        return;
      }
      const { host: _, "content-length": __, connection: ___, ...sent } = headers;
      const answer = await fetch(origin, { method: "POST", headers: sent, body: body as BodyInit });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(bytes);
    });
    await listen(front);
    const server = new DynamoServer((front.address() as AddressInfo).port, async () => {
      front.closeAllConnections();
      await new Promise<void>((resolve) => front.close(() => resolve()));
      tables.closeAllConnections();
      await new Promise<void>((resolve) => tables.close(() => resolve()));
    });
    return server;
  }

  get target(): { hostname: string; port: number } {
    return { hostname: "127.0.0.1", port: this.port };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function listen(server: { listen(port: number, host: string, done: () => void): unknown }): Promise<void> {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
}

/** Signs the request with the real keys, and compares. */
async function isOurs(
  method: string,
  path: string,
  headers: Record<string, string>,
  body: Uint8Array,
): Promise<boolean> {
  const [, id, region, service, names] =
    /Credential=([^/]+)\/\d{8}\/([^/]+)\/([^/]+)\/aws4_request, *SignedHeaders=([^,]+)/.exec(
      headers.authorization ?? "",
    ) ?? [];
  if (id !== AWS_KEYS.id) return false;
  const signed = new Set(names.split(";"));
  const date = headers["x-amz-date"].replace(
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/,
    "$1-$2-$3T$4:$5:$6Z",
  );
  const request = {
    method,
    protocol: "https:",
    hostname: headers.host,
    path,
    query: {},
    headers: Object.fromEntries(
      Object.entries(headers).filter(([name]) => signed.has(name) && name !== "authorization"),
    ),
    body,
  };
  const again = await librarySigner(AWS_KEYS, { service, region })
    .sign(request as never, { signingDate: new Date(date) }) as unknown as {
      headers: Record<string, string>;
    };
  const signatureOf = (text: string) => /Signature=([0-9a-f]{64})/.exec(text)?.[1];
  return signatureOf(again.headers.authorization) === signatureOf(headers.authorization);
}
