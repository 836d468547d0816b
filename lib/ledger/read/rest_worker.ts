/** The thread that checks the rear of a ledger's chains. */
import type { Client } from "../database.ts";
import { checkChain, EVENTS, OUTCOMES } from "./check.ts";
import { openLedger } from "./open.ts";
import type { RestReply, RestRequest } from "./rest.ts";

const port = self as unknown as {
  postMessage(reply: RestReply): void;
  onmessage: (message: { data: RestRequest }) => Promise<void>;
};

port.onmessage = async ({ data: { path, terms, events, outcomes } }) => {
  let client: Client | undefined;
  try {
    client = await openLedger(path);
    if (!await checkChain(client, EVENTS, events, terms)) port.postMessage({ events });
    if (!await checkChain(client, OUTCOMES, outcomes, terms)) port.postMessage({ outcomes });
  } catch {
    // The caller checks the rest, and meets the error there.
  } finally {
    client?.close();
    port.postMessage({ done: true });
  }
};
