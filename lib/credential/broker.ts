import type { SbxError } from "../base/error/mod.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import type {
  BodyFilter,
  BodyPlace,
  Broker,
  Destination,
  Injected,
  Substituted,
} from "../net/port/broker.ts";
import type { Header } from "../net/message/header.ts";
import { requestBody, responseBody } from "./body.ts";
import { Capture } from "./capture.ts";
import { captureDotEnv, guestEnvOf } from "./env.ts";
import { Finder } from "./finder.ts";
import { Injection } from "./inject.ts";
import { plainHost, type Provider, PROVIDERS, travelsIn } from "./provider.ts";
import type { CredentialStore } from "./store.ts";
import { Vault } from "./vault.ts";

/** What a broker is made of. */
export interface BrokerOptions {
  store: CredentialStore;
  /** those that the VM's profile grants (`[credentials] providers`) */
  providers: Iterable<Provider>;
  /** the VM whose traffic it sees; absent on the host's own side */
  vm?: string;
  /** what went wrong beside any request: a store that cannot be read, a secret that could not be kept */
  onError?(error: SbxError): void;
}

/** A secret for a request of the host's own. */
export interface HostUse {
  secret: string;
  /** aborts when it is revoked */
  released: AbortSignal;
  substitutions: readonly CredentialSubstitution[];
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+)$/;

/** A JSON Web Token, which identifies a person even where it opens nothing. */
const JWT = /(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g;
const REDACTED = "[redacted]";

/**
 * Keeps secrets on the host (contracts.md §9): guests hold refs, upstreams get secrets, and everything that is recorded
 * holds refs. What it answers about, the caller puts into the ledger.
 */
export class CredentialBroker implements Broker {
  readonly #vault: Vault;
  readonly #providers: ReadonlySet<Provider>;
  /** refs whose secrets went to a host: they are looked for in its answers */
  readonly #sent = new Map<string, Sent>();

  private constructor({ store, providers, vm, onError }: BrokerOptions) {
    this.#vault = new Vault(store, vm, onError ?? (() => {}));
    this.#providers = new Set(providers);
  }

  /** Reads the store. One that cannot be read is no failure here: every ref is refused until it can. */
  static async open(options: BrokerOptions): Promise<CredentialBroker> {
    const broker = new CredentialBroker(options);
    await broker.refresh();
    return broker;
  }

  /** Why every ref is refused, when the store cannot be read. */
  get broken(): SbxError | undefined {
    return this.#vault.broken;
  }

  capture(host: string, headers: Header[]): Substituted {
    return new Capture(this.#vault, host).headers(headers);
  }

  /** @throws {CredentialDenied} and {@linkcode DecoyUsed}: nothing of the request is to go out */
  inject(to: Destination, headers: Header[]): Injected {
    const injection = new Injection(this.#vault, this.#providers, to);
    const injected = injection.headers(headers);
    this.#note(to.host, injection.refs);
    return injected;
  }

  bodies(place: BodyPlace): BodyFilter | undefined {
    if (place.direction === "response") {
      return responseBody(this.#vault, place, this.#sent.get(plainHost(place.host))?.finder);
    }
    return requestBody(this.#vault, this.#providers, place);
  }

  /** Text in which known secrets are refs, and what looks like a secret is not there. Also right for JSON. */
  scrub(text: string): string {
    let out = "";
    let at = 0;
    for (const { kind, start, end, ref } of this.#vault.finder.find(text)) {
      if (kind === "ref") continue;
      out += text.slice(at, start) + (ref ?? REDACTED);
      at = end;
    }
    return (out + text.slice(at)).replace(JWT, REDACTED);
  }

  /** Environment variables for a guest: refs of what was added for these providers, never secrets. */
  guestEnv(providers: Iterable<Provider> = this.#providers): Record<string, string> {
    return guestEnvOf(this.#vault, providers);
  }

  /** A `.env` file with refs in place of its secrets. */
  captureDotEnv(text: string): { text: string; substitutions: CredentialSubstitution[] } {
    return captureDotEnv(this.#vault, text);
  }

  /**
   * The secret behind a ref for a request of the host's own (spec.md, "Authentication" 1: remote MCP servers). Whoever
   * wrote the ref into the server's definition has granted it; where it may go is checked as ever. Plain http is for
   * servers of this machine only.
   *
   * @throws {CredentialDenied} with the rows for the ledger
   */
  async use(ref: string, url: URL): Promise<HostUse> {
    await this.refresh();
    const isHere = url.protocol === "http:" && LOOPBACK.test(url.hostname);
    const to = {
      scheme: isHere ? "https" : url.protocol.slice(0, -1),
      host: url.hostname,
      port: Number(url.port) || (url.protocol === "https:" ? 443 : 80),
    };
    const injection = new Injection(this.#vault, new Set(PROVIDERS), to);
    const { secret, signal } = injection.use(
      ref,
      "authorization",
      (provider) => travelsIn(provider, "authorization"),
    );
    return { secret, released: signal, substitutions: injection.substitutions };
  }

  /** Aborts when the credential is revoked; `undefined` for a ref that nobody knows. */
  released(ref: string): AbortSignal | undefined {
    return this.#vault.get(ref)?.controller.signal;
  }

  /** Reads what other processes wrote, secrets that are new included. */
  refresh(): Promise<void> {
    return this.#vault.refresh();
  }

  /** Waits until what the guest brought is in the store. */
  flush(): Promise<void> {
    return this.#vault.flush();
  }

  close(): Promise<void> {
    return this.#vault.close();
  }

  #note(host: string, refs: ReadonlySet<string>): void {
    // Only hosts that own a credential ever get one, so there are few of these.
    const name = plainHost(host);
    const before = this.#sent.get(name)?.refs ?? new Set();
    const now = before.union(refs);
    if (now.size === before.size) return;
    this.#sent.set(name, { refs: now, finder: new Finder(this.#vault.secrets(now), { shapes: false }) });
  }
}

/** What went to one host, and what finds it in answers. */
interface Sent {
  refs: ReadonlySet<string>;
  finder: Finder;
}
