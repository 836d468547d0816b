/**
 * HTTP of the read-only service: logins, questions, and the log of them. Bodies and browsers may be hostile.
 */
import { z } from "zod";
import { asSbxError, errorBody, ignore, SbxError, statusOf } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { log } from "../../base/log/mod.ts";
import { ANSWER_ROWS, ask, type Asked as AskedWhere, findQuestion, QUESTIONS } from "../question/mod.ts";
import { type FleetServer, listMachines, type Place, serveBehindFront } from "../receive/mod.ts";
import { Accounts } from "./accounts.ts";
import { type Asked, AskedLog, readAsked } from "./asked.ts";
import { type Account, type ReaderFile, type Rights, rightsOf } from "./config.ts";
import { answerPage, questionsPage } from "./page.ts";

/** Time in `ms` that a login lasts: groups are read again with the next one. */
const SESSION_MS = 3_600_000;
/** Logins at once, largest body in `bytes`, questions at once, and lines of the log in one answer. */
const SESSIONS_MAX = 10_000, BODY_MAX = 8192, RUNNING_MAX = 2, ASKED_MAX = 1000;
const DAYS = 30, DAY_MS = 86_400_000;

const Question = z.strictObject({
  question: z.string().max(64),
  value: z.string().min(1).max(1024).optional(),
  days: z.int().min(1).max(36_500).default(DAYS),
});

export interface ReaderOptions extends Place {
  /** the store */
  dir: string;
  config: ReaderFile;
  /** secret of the client at the provider */
  secret?: string;
  /** opens the tables for one question */
  open(): Promise<AsyncDisposable & Pick<AskedWhere, "engine" | "table">>;
}

/** Who asks, and with which rights. */
interface Visitor {
  account: Account;
  rights: Rights;
}

/** Serves until it is shut down. */
export async function serveReader(options: ReaderOptions): Promise<FleetServer> {
  const site = new Site(options);
  return await serveBehindFront(options, (request) => site.answer(request));
}

class Site {
  readonly #options: ReaderOptions;
  readonly #accounts: Accounts;
  readonly #asked: AskedLog;
  /** logins, by the hash of their cookie */
  readonly #sessions = new Map<string, { account: Account; until: number }>();
  readonly #origin: string;
  /** prefix that a browser enforces: TLS, this host alone */
  readonly #prefix: string;
  #running = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#accounts = new Accounts(options.config.oidc, options.secret);
    this.#asked = new AskedLog(options.dir);
    const { origin, protocol } = new URL(options.config.oidc.public_url);
    this.#origin = origin;
    this.#prefix = protocol === "https:" ? "__Host-" : "";
  }

  async answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const isPage = !pathname.startsWith("/v1/");
    try {
      const response = await this.#route(`${request.method} ${pathname}`, request, searchParams);
      for (const [name, value] of HEADERS) response.headers.set(name, value);
      return response;
    } catch (cause) {
      const error = asSbxError(cause, `${request.method} ${pathname}`);
      const status = statusOf(error.code);
      if (isPage && status === 401 && request.method === "GET") return this.#redirect("/login");
      if (status >= 500) log.error(`${error.message}${error.cause ? `: ${error.cause}` : ""}`);
      return Response.json(errorBody(error), { status, headers: HEADERS });
    } finally {
      await request.body?.cancel().catch(ignore("it was read, or the visitor has left"));
    }
  }

  async #route(route: string, request: Request, search: URLSearchParams): Promise<Response> {
    switch (route) {
      case "GET /healthz":
        return new Response("ok\n");
      case "GET /login":
        return await this.#login();
      case "GET /callback":
        return await this.#callback(request, search);
      case "GET /":
        return html(questionsPage(allowedQuestions((await this.#visitor(request)).rights)));
      case "GET /v1/questions":
        return Response.json({ questions: allowedQuestions((await this.#visitor(request)).rights) });
      case "POST /v1/ask": {
        const asked = Question.safeParse(parse(await readBody(request)));
        if (!asked.success) throw invalid(z.prettifyError(asked.error));
        return Response.json(await this.#ask(await this.#visitor(request, true), asked.data));
      }
      case "POST /ask": {
        const form = new URLSearchParams(await readBody(request));
        const value = form.get("value") ?? "";
        const asked = Question.safeParse({
          question: form.get("question"),
          days: Number(form.get("days")),
          ...(value !== "" && { value }),
        });
        if (!asked.success) throw invalid(z.prettifyError(asked.error));
        const { rows } = await this.#ask(await this.#visitor(request, true), asked.data);
        return html(answerPage(asked.data, rows));
      }
      case "GET /v1/asked":
        return await this.#showAsked(await this.#visitor(request));
      default:
        throw new SbxError("route.not_found", `there is no ${route}`);
    }
  }

  async #login(): Promise<Response> {
    const { id, url } = await this.#accounts.begin();
    const response = new Response(null, { status: 303, headers: { location: url } });
    response.headers.append("set-cookie", this.#cookie("sbx_login", id, 600));
    return response;
  }

  async #callback(request: Request, search: URLSearchParams): Promise<Response> {
    const account = await this.#accounts.finish(this.#cookieOf(request, "sbx_login") ?? "", search);
    const rights = rightsOf(this.#options.config, account);
    await this.#note(account, { question: "log in", teams: [], outcome: rights ? "allowed" : "denied" });
    if (!rights) throw denied("no grant of reader.toml names this account");
    const id = crypto.getRandomValues(new Uint8Array(32)).toHex();
    this.#sessions.set(blake3(id), { account, until: Date.now() + SESSION_MS });
    if (this.#sessions.size > SESSIONS_MAX) this.#sessions.delete(this.#sessions.keys().next().value!);
    const response = this.#redirect("/");
    response.headers.append("set-cookie", this.#cookie("sbx_reader", id, SESSION_MS / 1000));
    response.headers.append("set-cookie", this.#cookie("sbx_login", "", 0));
    return response;
  }

  /** @param isAction a cookie counts from this site's own pages alone */
  async #visitor(request: Request, isAction = false): Promise<Visitor> {
    const account = request.headers.has("authorization")
      ? await this.#accounts.bearer(request)
      : this.#ofCookie(request, isAction);
    const rights = rightsOf(this.#options.config, account);
    if (!rights) throw denied("no grant of reader.toml names this account");
    return { account, rights };
  }

  #ofCookie(request: Request, isAction: boolean): Account {
    const id = this.#cookieOf(request, "sbx_reader");
    const session = id === undefined ? undefined : this.#sessions.get(blake3(id));
    if (!session || session.until < Date.now()) {
      throw new SbxError("auth.missing_token", "no one is logged in", { hint: `open ${this.#origin}/login` });
    }
    if (isAction && request.headers.get("origin") !== this.#origin) {
      throw denied("the question came from another site");
    }
    return session.account;
  }

  async #ask({ account, rights }: Visitor, { question, value, days }: z.output<typeof Question>) {
    const found = findQuestion(question);
    const teams = rights.teamsFor(question);
    const since = Date.now() - days * DAY_MS;
    await this.#note(account, {
      question,
      ...(value !== undefined && { value }),
      since: new Date(since).toISOString(),
      teams: [...teams].sort(),
      outcome: teams.size > 0 ? "allowed" : "denied",
    });
    if (teams.size === 0) throw denied(`this account may not ask "${question}"`);
    if (this.#running >= RUNNING_MAX) {
      throw new SbxError("fleet.busy", "the service answers other questions", {
        hint: "try again in a minute",
      });
    }
    this.#running++;
    try {
      const isAll = teams.has("*");
      const machines = (await listMachines(this.#options.dir)).filter(({ team }) =>
        isAll || team !== undefined && teams.has(team)
      );
      await using records = await this.#options.open();
      const { engine } = records;
      const ids = machines.map(({ machine_id }) => `'${machine_id}'`).join(", ");
      // Rows of other teams are in no statement: a question has no way around it.
      const table = (name: string) =>
        isAll
          ? records.table(name)
          : `(SELECT * FROM ${records.table(name)} AS own WHERE ${
            ids === "" ? "1 = 0" : `own.machine_id IN (${ids})`
          })`;
      const rows = await ask({ engine, table, machines }, found, {
        since,
        ...(value !== undefined && { value }),
      });
      return { question, rows, truncated: rows.length === ANSWER_ROWS };
    } finally {
      this.#running--;
    }
  }

  async #showAsked({ account, rights }: Visitor): Promise<Response> {
    const outcome = rights.isAuditor ? "allowed" : "denied";
    await this.#note(account, { question: "asked", teams: [], outcome });
    if (!rights.isAuditor) throw denied("this account may not read who asked what");
    const { asked, problem } = await readAsked(this.#options.dir);
    return Response.json({ asked: asked.slice(-ASKED_MAX), ...(problem && { problem }) });
  }

  async #note(
    { subject, name, groups }: Account,
    asked: Pick<
      Asked,
      "question" | "value" | "since" | "teams" | "outcome"
    >,
  ): Promise<void> {
    await this.#asked.append({ subject, ...(name !== undefined && { name }), groups: [...groups], ...asked });
  }

  #redirect(path: string): Response {
    return new Response(null, { status: 303, headers: { ...HEADERS_OBJECT, location: path } });
  }

  #cookie(name: string, value: string, seconds: number): string {
    const secure = this.#prefix === "" ? "" : "; Secure";
    return `${this.#prefix}${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
  }

  #cookieOf(request: Request, name: string): string | undefined {
    const start = `${this.#prefix}${name}=`;
    return request.headers.get("cookie")?.split("; ").find((each) => each.startsWith(start))?.slice(
      start.length,
    );
  }
}

/** Headers of every answer: nothing is kept by browsers, and pages load nothing and run nothing. */
const HEADERS_OBJECT = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "content-security-policy":
    "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
};
const HEADERS = Object.entries(HEADERS_OBJECT) as [string, string][];

/** Questions that an account may ask. */
function allowedQuestions(rights: Rights) {
  return QUESTIONS.filter(({ name }) => rights.teamsFor(name).size > 0)
    .map(({ name, about, value }) => ({ name, about, ...(value && { value }) }));
}

function html(text: string): Response {
  return new Response(text, { headers: { "content-type": "text/html; charset=utf-8" } });
}

async function readBody(request: Request): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of request.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > BODY_MAX) {
      throw new SbxError("request.too_large", `the body has more than ${BODY_MAX} bytes`);
    }
  }
  return text;
}

function denied(problem: string): SbxError {
  return new SbxError("fleet.reader.denied", problem, {
    hint: "an administrator adds a [[grant]] to reader.toml of the store",
  });
}

function invalid(problem: string): SbxError {
  return new SbxError("usage.invalid", `the question is refused: ${problem}`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
