/** Body filters (docs/contracts.md §9): secrets pass only at the OAuth token endpoints of their provider. */
import type { CredentialSubstitution } from "../event/mod.ts";
import type { BodyFilter, BodyPlace } from "../net/port/mod.ts";
import { Capture } from "./capture.ts";
import type { Finder, SecretMatch } from "./finder.ts";
import { isSecret, jsonForm } from "./form.ts";
import { DecoyUsed, deniedError, REASON } from "./grant.ts";
import { Injection } from "./inject.ts";
import { plainHost, type Provider, tokenEndpointOf } from "./provider.ts";
import { latin1, StreamReplacer } from "./stream.ts";
import { providerOfToken } from "./token.ts";
import type { Vault } from "./vault.ts";

/** Longest answer of a token endpoint, in `bytes`; real ones have a few KB. */
export const TOKEN_BODY_MAX = 256 * 1024;
/** Most substitutions recorded for one body; replacing goes on beyond it. */
const ROWS_MAX = 32;

/**
 * Placeholder for a secret or ref in a request body. It has the length of the original, so that a declared
 * Content-Length holds. A secret in a body could be asked back, since a model repeats its input, and an
 * unresolved ref is never sent.
 */
export function placeholderOf(length: number): string {
  return (length < PLACEHOLDER.length ? PLACEHOLDER.slice(-length) : PLACEHOLDER).padEnd(length, "-");
}

const PLACEHOLDER = "credential-withheld";

/** Secret fields of an OAuth answer (RFC 6749, 5.1). */
const TOKEN_FIELDS = ["access_token", "refresh_token"];

/** Filter for a request body on its way to the upstream. */
export function requestBody(vault: Vault, providers: ReadonlySet<Provider>, place: BodyPlace): BodyFilter {
  const injection = new Injection(vault, providers, place);
  const rows = new UniqueRows(injection.substitutions);
  const endpoint = place.scheme === "https" ? tokenEndpointOf(place.host, place.path) : undefined;
  const encode = encoder(place.content_type);
  const host = plainHost(place.host);
  const replace = (match: SecretMatch): string | undefined => {
    const provider = match.ref === undefined
      ? providerOfToken(match.text)!
      : vault.get(match.ref)?.entry.provider;
    const ref = match.ref ?? vault.refOf(provider!, match.text);
    if (endpoint !== undefined && (provider ?? endpoint) === endpoint) {
      if (match.kind !== "ref") return undefined;
      return encode(injection.use(ref, "body", (owner) => owner === endpoint).secret);
    }
    const row = { provider: provider ?? "unknown", credential_ref: ref, host, location: "body" } as const;
    if (vault.get(ref)?.entry.decoy) {
      throw new DecoyUsed({ ...row, outcome: "denied" });
    }
    rows.add({ ...row, outcome: "denied", reason: REASON.inBody });
    return placeholderOf(match.end - match.start);
  };
  const replacer = new StreamReplacer(() => vault.finder, replace);
  return {
    push: (chunk) => replacer.push(chunk),
    end: () => replacer.end(),
    substitutions: rows.rows,
    get released() {
      return injection.released;
    },
  };
}

/**
 * Filter for a response body on its way to the guest; `undefined` when no secret was sent to its host.
 *
 * @param finder finder of the secrets sent to the host
 */
export function responseBody(vault: Vault, place: BodyPlace, finder?: Finder): BodyFilter | undefined {
  const provider = place.scheme === "https" ? tokenEndpointOf(place.host, place.path) : undefined;
  if (provider !== undefined) return new TokenBody(vault, provider, place);
  if (!finder) return undefined;
  const rows = new UniqueRows();
  const replacer = new StreamReplacer(() => finder, ({ ref }) => {
    const owner = vault.get(ref!)!.entry.provider;
    rows.add({
      provider: owner,
      credential_ref: ref!,
      host: plainHost(place.host),
      location: "response body",
      outcome: "brokered",
    });
    return ref;
  });
  return { push: (chunk) => replacer.push(chunk), end: () => replacer.end(), substitutions: rows.rows };
}

/**
 * Filter for the answer of a token endpoint, JSON or a form: reads it whole and replaces its tokens with
 * refs.
 */
class TokenBody implements BodyFilter {
  readonly #capture: Capture;
  readonly #provider: Provider;
  readonly #place: BodyPlace;
  #text = "";

  constructor(vault: Vault, provider: Provider, place: BodyPlace) {
    this.#capture = new Capture(vault, place.host);
    this.#provider = provider;
    this.#place = place;
  }

  get substitutions(): readonly CredentialSubstitution[] {
    return this.#capture.substitutions;
  }

  push(chunk: Uint8Array): Uint8Array {
    if (this.#text.length + chunk.length > TOKEN_BODY_MAX) {
      throw deniedError({
        provider: this.#provider,
        credential_ref: "none",
        host: plainHost(this.#place.host),
        location: "response body",
        outcome: "error",
        reason: `the OAuth answer is over ${TOKEN_BODY_MAX} bytes`,
      });
    }
    this.#text += latin1(chunk);
    return new Uint8Array(0);
  }

  end(): Uint8Array {
    let text = this.#text;
    for (const [secret, encoded] of tokensOf(text)) {
      text = text.replaceAll(encoded, this.#capture.take(this.#provider, secret, "response body"));
    }
    return Uint8Array.from(this.#capture.text(text, "response body"), (char) => char.charCodeAt(0));
  }
}

/** Tokens of an OAuth answer, each with its encoded form in the text. */
function tokensOf(text: string): Map<string, string> {
  const tokens = new Map<string, string>();
  const add = (value: unknown, encode: (secret: string) => string) => {
    if (typeof value === "string" && isSecret(value)) tokens.set(value, encode(value));
  };
  try {
    const body = JSON.parse(text);
    for (const field of TOKEN_FIELDS) add(body?.[field], jsonForm);
  } catch {
    const body = new URLSearchParams(text);
    for (const field of TOKEN_FIELDS) add(body.get(field), (secret) => secret);
  }
  return tokens;
}

/** Encoding of a secret in a body of this content type. */
function encoder(contentType = ""): (secret: string) => string {
  return contentType.toLowerCase().includes("json") ? jsonForm : encodeURIComponent;
}

/** Substitutions of one body, each ref and outcome once. */
export class UniqueRows {
  readonly rows: CredentialSubstitution[];
  readonly #seen = new Set<string>();

  constructor(rows: CredentialSubstitution[] = []) {
    this.rows = rows;
  }

  add(row: CredentialSubstitution): void {
    const key = `${row.credential_ref} ${row.outcome}`;
    if (this.#seen.has(key) || this.#seen.size >= ROWS_MAX) return;
    this.#seen.add(key);
    this.rows.push(row);
  }
}
