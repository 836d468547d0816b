/** A login that an agent makes inside a VM: its answer passes the VM's broker. */
import { beginLogin } from "../../lib/credential/subscription/oauth.ts";
import type { CredentialBroker } from "../../lib/credential/mod.ts";
import { decode, encode, to } from "./credential.ts";
import type { TestProvider } from "./identity_provider.ts";
import type { Parsed } from "./json.ts";

export interface GuestLogin {
  /** refs that the guest has */
  access: string;
  refresh: string;
  /** the provider's answer */
  real: Parsed;
}

/** @param path of the request that brings the tokens; absent: the token endpoint's */
export async function logInGuest(
  { facts, state, browse }: TestProvider,
  broker: CredentialBroker,
  path = new URL(facts.token).pathname,
): Promise<GuestLogin> {
  let real: Parsed = {};
  const hook = state.token;
  state.token = (answer) => real = answer;
  const waiting = await beginLogin(facts);
  await browse(waiting.url);
  await waiting.finished;
  if (hook) state.token = hook;
  else delete state.token;
  const place = { ...to(new URL(facts.token).hostname), direction: "response" as const, path, status: 200 };
  const filter = broker.bodies(place)!;
  const text = decode(filter.push(encode(JSON.stringify(real)))) + decode(filter.end());
  const given = JSON.parse(text);
  await broker.flush();
  return { access: given.access_token, refresh: given.refresh_token, real };
}
