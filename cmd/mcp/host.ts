import { type Client, start } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { say } from "../../lib/base/log/mod.ts";

/** This home's gateway, for tool calls. */
export class Host {
  #busy = 0;
  #idle: (() => void)[] = [];

  /**
   * Does something with the API. Service and gateway are looked for before each call, as the CLI does it, and started
   * where they do not run: an agent's session outlives them.
   *
   * @throws SbxError what the API answered, or why nothing could be started
   */
  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    this.#busy++;
    try {
      return await work(await connect());
    } finally {
      if (--this.#busy === 0) { for (const wake of this.#idle.splice(0)) wake(); }
    }
  }

  /** Settles when no call is under way. */
  idle(): Promise<void> {
    return this.#busy === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve));
  }
}

async function connect(): Promise<Client> {
  // stdout belongs to the protocol; what an agent's log shows is stderr.
  const onStart = () => say("sbx-mcp: starting sbx…");
  return (await start(home(), { port: gatewayPort(), onStart })).client;
}

/** `SBX_GATEWAY_PORT`: where a gateway that must be started shall listen. */
function gatewayPort(): number | undefined {
  const text = Deno.env.get("SBX_GATEWAY_PORT");
  return text ? portOf("SBX_GATEWAY_PORT", text) : undefined;
}

/** @throws SbxError `usage.invalid` */
export function portOf(from: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new SbxError("usage.invalid", `${from} is "${text}"`, { hint: "a port is a number from 0 to 65535" });
}
