import { SbxError } from "../../base/error/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import { parseNats, refuseClear } from "../nats.ts";
import { pullNats } from "./nats.ts";
import type { Pulled } from "./take.ts";

/** How a receiver reads from where machines put their segments. */
export interface PullOptions extends Pulled {
  signal: AbortSignal;
  onKept?(messages: number): void;
}

/** Reads until aborted. @throws {SbxError} `fleet.unavailable` and others that no retry fixes */
export type Pull = (options: PullOptions) => Promise<void>;

/** Prepares to read the source a URL names, without connecting yet. @throws {SbxError} `fleet.url.invalid` */
export function openSource(url: string, authorize?: (url: URL) => Promise<string>): Pull {
  if (/^(nats|tls):/.test(url)) {
    const address = parseNats(url);
    if (authorize) refuseClear(address);
    return (options) => pullNats({ ...options, address, authorize });
  }
  throw new SbxError("fleet.url.invalid", `a receiver cannot read from "${shownAddress(url)}"`, {
    hint: "use tls://HOST of a NATS server",
  });
}
