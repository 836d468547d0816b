/**
 * Credentials of sinks: a ref in the configuration, the secret in the store,
 * the header made for each request.
 */
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { CredentialBroker } from "./broker.ts";
import { CredentialStore, storePath } from "./store.ts";

/** How a sink authenticates. */
export interface SinkAuth {
  /** ref of a credential of the provider `mcp`, bound to the sink's host */
  credential_ref: string;
  /** user of basic authentication; absent: a bearer token */
  user?: string;
}

/**
 * Makes the `authorization` header of a sink. Each call asks the store, so a revoked credential is not sent
 * again, and the header is kept nowhere.
 *
 * @throws {SbxError} `credential.denied`: unknown, revoked, for another host, or not over https
 */
export function sinkAuthorization(
  home: Pick<Home, "dir">,
  { credential_ref, user }: SinkAuth,
): (url: URL) => Promise<string> {
  let broker: Promise<CredentialBroker> | undefined;
  return async (url) => {
    broker ??= CredentialBroker.open({ store: new CredentialStore(storePath(home)), providers: [] });
    try {
      const { secret } = await (await broker).use(credential_ref, url);
      if (user === undefined) return `Bearer ${secret}`;
      return `Basic ${new TextEncoder().encode(`${user}:${secret}`).toBase64()}`;
    } catch (cause) {
      throw new SbxError("credential.denied", (cause as Error).message, {
        cause,
        hint:
          "sbx credentials list shows the refs; sbx credentials add PROVIDER mcp --host HOST adds one for the sink",
      });
    }
  };
}
