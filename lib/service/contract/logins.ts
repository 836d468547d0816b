/** Logins of people at subscriptions, on the host (docs/design/contracts/09-credentials.md §9, "Subscriptions"). */
import type { LoginBegin, LoginList, LoginState, LoginView, LoginWaiting } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import {
  type LoginProvider,
  looksSecret,
  type Subscription,
  type SubscriptionKey,
  type Subscriptions,
} from "../../credential/mod.ts";

/** Longest time in `ms` for which a request waits for the end of a login. */
const POLL_MS = 20_000;
/** Most logins that wait at once. */
const WAITING_MAX = 8;

/** A login that waits for a person, or how it ended. */
interface Attempt {
  ended: Promise<void>;
  paste(code: string): void;
  cancel(): void;
  isOver: boolean;
  error?: unknown;
}

export class HostLogins {
  readonly #logins: Subscriptions;
  readonly #attempts = new Map<string, Attempt>();

  constructor(logins: Subscriptions) {
    this.#logins = logins;
  }

  /** Every login, and a line for each subscription without one. */
  list(): LoginList {
    const all = this.#logins.list();
    return {
      logins: this.#logins.providers.flatMap((each) => {
        const own = all.filter(({ login }) => login === each.facts.login);
        return own.length > 0 ? own.map((login) => viewOf(each, login)) : [viewOf(each)];
      }),
    };
  }

  /** Begins a login in place of the one that waits. @throws {SbxError} `login.unknown`, `login.failed`, `login.limit` */
  async begin(id: string, { label, way }: LoginBegin): Promise<LoginWaiting> {
    const { facts } = this.#logins.providerOf(id);
    if (label !== undefined && looksSecret(label)) {
      throw new SbxError("credential.invalid", "the label looks like a key, and lists would show it", {
        hint: "give another label",
      });
    }
    const key = { login: id, ...(label !== undefined && { label }) };
    const before = this.#attempts.get(nameOf(key));
    before?.cancel();
    // Its port is free again only then.
    await before?.ended;
    if (this.#attempts.values().filter(({ isOver }) => !isOver).toArray().length >= WAITING_MAX) {
      throw new SbxError("login.limit", `${WAITING_MAX} logins wait already`, {
        hint: "finish one of them, or wait until they end",
      });
    }
    const { beginLogin } = await import("../../credential/subscription/mod.ts");
    const { finished, paste, cancel, ...waiting } = await beginLogin(facts, { ...(way && { way }) });
    const abandoned = Promise.withResolvers<never>();
    const attempt: Attempt = {
      ended: Promise.resolve(),
      paste,
      cancel: () => {
        cancel();
        // The code may have come already: its tokens are not kept.
        abandoned.reject(new SbxError("login.failed", "the login was cancelled"));
      },
      isOver: false,
    };
    this.#attempts.set(nameOf(key), attempt);
    attempt.ended = Promise.race([finished, abandoned.promise])
      .then((tokens) => this.#logins.save(key, tokens))
      .then(() => {}, (error) => {
        attempt.error = error;
      })
      .finally(() => attempt.isOver = true);
    return waiting;
  }

  /** Takes a pasted code. @throws {SbxError} `login.not_found`, `login.failed` */
  async code(key: SubscriptionKey, code: string): Promise<LoginState> {
    const attempt = this.#attempts.get(nameOf(key));
    if (!attempt || attempt.isOver) {
      throw new SbxError("login.not_found", "no login waits for a code", {
        hint: `run sbx login ${key.login}`,
      });
    }
    attempt.paste(code);
    return await this.state(key);
  }

  /** The login. @throws {SbxError} the reason why the last attempt failed, once */
  async state(key: SubscriptionKey): Promise<LoginState> {
    const provider = this.#logins.providerOf(key.login);
    const attempt = this.#attempts.get(nameOf(key));
    if (attempt) {
      await Promise.race([attempt.ended, backgroundDelay(POLL_MS)]);
      if (!attempt.isOver) return { waiting: true };
      if (this.#attempts.get(nameOf(key)) === attempt) this.#attempts.delete(nameOf(key));
      if (attempt.error !== undefined) throw attempt.error;
    }
    return { waiting: false, login: viewOf(provider, this.#logins.find(key)) };
  }

  /** Forgets a login. @throws {SbxError} `login.not_found` */
  async remove(key: SubscriptionKey): Promise<LoginState> {
    const provider = this.#logins.providerOf(key.login);
    this.#attempts.get(nameOf(key))?.cancel();
    if (!await this.#logins.remove(key)) {
      const labels = this.#logins.list().filter(({ login }) => login === key.login).map(({ label }) => label);
      throw new SbxError("login.not_found", `there is no such login of ${provider.facts.title}`, {
        hint: labels.length > 0
          ? `its logins have the labels: ${labels.map((label) => label ?? "(none)").join(", ")}`
          : `log in with sbx login ${key.login}`,
      });
    }
    return { waiting: false, login: viewOf(provider) };
  }
}

function nameOf({ login, label }: SubscriptionKey): string {
  return JSON.stringify([login, label]);
}

function viewOf({ provider, facts: { login, title } }: LoginProvider, found?: Subscription): LoginView {
  const view = { login, title, provider };
  if (!found) return { ...view, state: "logged_out" };
  const { label, access, terms: { account, scope, expires_at, problem } } = found;
  return {
    ...view,
    ...(label !== undefined && { label }),
    state: problem?.is_over ? "over" : "logged_in",
    ref: access.ref,
    ...(account !== undefined && { account }),
    ...(scope !== undefined && { scope }),
    ...(expires_at !== undefined && { expires_at: new Date(expires_at).toISOString() }),
    ...(problem && { problem: problem.text }),
  };
}
