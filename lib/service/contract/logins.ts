/**
 * Logins of people at subscriptions, on the host
 * (docs/design/contracts/09-credentials.md §9, "Subscriptions").
 */
import type { LoginBegin, LoginList, LoginState, LoginView, LoginWaiting } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import type { GivenVm } from "./login_files.ts";
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
  cancel(reason: SbxError): void;
  isOver: boolean;
  error?: unknown;
  /** running VMs that got its files */
  given: readonly GivenVm[];
  readonly id: string;
}

/** Gives a new login to running VMs. */
type Give = (login: Subscription) => Promise<GivenVm[]>;

export class HostLogins {
  readonly #logins: Subscriptions;
  readonly #attempts = new Map<string, Attempt>();

  readonly #give: Give;

  readonly #nameOf: (vm: string) => string;

  /** @param nameOf name of a VM, by its id */
  constructor(
    logins: Subscriptions,
    give: Give = () => Promise.resolve([]),
    nameOf = (vm: string) => vm,
  ) {
    this.#logins = logins;
    this.#give = give;
    this.#nameOf = nameOf;
  }

  /** Every login, and a line for each subscription without one. */
  list(): LoginList {
    const all = this.#logins.list();
    return {
      logins: this.#logins.providers.flatMap((each) => {
        const own = all.filter(({ login }) => login === each.facts.login);
        return own.length > 0 ? own.map((login) => viewOf(each, login)) : [viewOf(each)];
      }),
      offers: this.#logins.offers().map(({ access: _, vm, ...offer }) => ({
        ...offer,
        vm: this.#nameOf(vm),
      })),
    };
  }

  /** Keeps a login that an agent made in a VM. @throws {SbxError} as `Subscriptions.keep` */
  async keep(login: string, ref: string, label?: string): Promise<LoginState> {
    requireLabel(label);
    const provider = this.#logins.providerOf(login);
    if (!this.#logins.offers().some((each) => each.ref === ref && each.login === login)) {
      throw new SbxError("login.not_found", `no VM has made a login ${login} with the ref ${ref}`, {
        hint: "sbx credentials keep lists the ones that VMs made",
      });
    }
    const kept = await this.#logins.keep(ref, label);
    const running = await this.#give(kept);
    return { waiting: false, login: viewOf(provider, kept), ...(running.length > 0 && { running }) };
  }

  /**
   * Begins a login in place of the one that waits.
   * @throws {SbxError} `login.unknown`, `login.failed`, `login.limit`
   */
  async begin(id: string, { label, way }: LoginBegin): Promise<LoginWaiting> {
    const { facts } = this.#logins.providerOf(id);
    requireLabel(label);
    const key = { login: id, ...(label !== undefined && { label }) };
    const before = this.#attempts.get(nameOf(key));
    before?.cancel(replacedError(key));
    // Its port is free again only then.
    await before?.ended;
    if (this.#attempts.values().filter(({ isOver }) => !isOver).toArray().length >= WAITING_MAX) {
      throw new SbxError("login.limit", `${WAITING_MAX} logins wait already`, {
        hint: "finish one of them, or wait until they end",
      });
    }
    const { beginLogin, waysOf } = await import("../../credential/subscription/mod.ts");
    const { finished, paste, cancel, ...waiting } = await beginLogin(facts, { ...(way && { way }) });
    const abandoned = Promise.withResolvers<never>();
    const attempt: Attempt = {
      ended: Promise.resolve(),
      paste,
      cancel: (reason) => {
        // The code may have come already: its tokens are not kept.
        abandoned.reject(reason);
        cancel();
      },
      isOver: false,
      given: [],
      id: crypto.randomUUID(),
    };
    this.#attempts.set(nameOf(key), attempt);
    attempt.ended = Promise.race([finished, abandoned.promise])
      .then((tokens) => this.#logins.save(key, tokens))
      .then(async (login) => {
        attempt.given = await this.#give(login);
      }).catch((error) => {
        attempt.error = error;
      })
      .finally(() => attempt.isOver = true);
    return { ...waiting, ways: waysOf(facts), attempt: attempt.id };
  }

  /** Takes a pasted code. @throws {SbxError} `login.not_found`, `login.failed` */
  async code(key: SubscriptionKey, code: string, id?: string): Promise<LoginState> {
    const attempt = this.#attempts.get(nameOf(key));
    requireSame(key, attempt, id);
    if (!attempt || attempt.isOver) {
      throw new SbxError("login.not_found", "no login waits for a code", {
        hint: `run sbx login ${key.login}`,
      });
    }
    attempt.paste(code);
    return await this.state(key, id);
  }

  /**
   * The login.
   *
   * @param id of the attempt that the caller began
   * @throws {SbxError} the reason why the last attempt failed, once;
   * `login.failed`: another one took its place
   */
  async state(key: SubscriptionKey, id?: string): Promise<LoginState> {
    const provider = this.#logins.providerOf(key.login);
    const attempt = this.#attempts.get(nameOf(key));
    requireSame(key, attempt, id);
    if (attempt) {
      await Promise.race([attempt.ended, backgroundDelay(POLL_MS)]);
      requireSame(key, this.#attempts.get(nameOf(key)), id);
      if (!attempt.isOver) return { waiting: true };
      if (this.#attempts.get(nameOf(key)) === attempt) this.#attempts.delete(nameOf(key));
      if (attempt.error !== undefined) throw attempt.error;
    }
    const given = attempt?.given ?? [];
    return {
      waiting: false,
      login: viewOf(provider, this.#logins.find(key)),
      ...(given.length > 0 && { running: [...given] }),
    };
  }

  /** Forgets a login. @throws {SbxError} `login.not_found` */
  async remove(key: SubscriptionKey): Promise<LoginState> {
    const provider = this.#logins.providerOf(key.login);
    this.#attempts.get(nameOf(key))?.cancel(new SbxError("login.failed", "the login was cancelled"));
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

/** @throws {SbxError} `credential.invalid` */
function requireLabel(label: string | undefined): void {
  if (label === undefined || !looksSecret(label)) return;
  throw new SbxError("credential.invalid", "the label looks like a key, and lists would show it", {
    hint: "give another label",
  });
}

/** @throws {SbxError} `login.failed`: a later login of the same name waits, or has ended */
function requireSame(key: SubscriptionKey, attempt: Attempt | undefined, id: string | undefined): void {
  if (id !== undefined && attempt?.id !== id) throw replacedError(key);
}

function replacedError({ login }: SubscriptionKey): SbxError {
  return new SbxError("login.failed", `another sbx login ${login} took the place of this one`, {
    hint: "finish that one; sbx login shows how it ended",
  });
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
