import { SbxError } from "../../base/error/mod.ts";
import { parseNats } from "../nats/mod.ts";
import { pullNats } from "./nats.ts";
import type { Pulled } from "./take.ts";

/** How a receiver reads from where machines put their segments. */
export interface PullOptions extends Pulled {
  authorize?: (url: URL) => Promise<string>;
  signal: AbortSignal;
  onKept?(messages: number): void;
}

/** Reads what a URL names until it is aborted. @throws {SbxError} `fleet.url.invalid`, `fleet.unavailable` */
export async function pullFrom(url: string, options: PullOptions): Promise<void> {
  if (/^(nats|tls):/.test(url)) return await pullNats({ ...options, address: parseNats(url) });
  throw new SbxError("fleet.url.invalid", `a receiver cannot read from "${url}"`, {
    hint: "use nats://127.0.0.1:4222 or tls://HOST of a NATS server",
  });
}
