/** Feeds of every event to the sinks that corp and the person name (docs/guides/siem.md). */
import { join } from "node:path";
import { asSbxError, ignore } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { count } from "../../base/text/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { sinkAuthorization } from "../../credential/mod.ts";
import type { Feed, FeedStanding, FeedStatus, SinkTrial } from "../../ledger/feed/mod.ts";
import type { FeedSink } from "../../ledger/feed/schema.ts";
import { sessionPaths } from "../../session/mod.ts";
import type { Registry } from "../vm/registry.ts";
import { makerOf } from "./ledger.ts";
import { OwnSinks } from "./own_sinks.ts";
import type { Sessions } from "./sessions.ts";

/** `ms` between two rounds. */
const ROUND_MS = 1000;

export interface FeedSources {
  home: Home;
  corp: Pick<CorpStore, "state">;
  registry: Pick<Registry, "alive">;
  sessions: Pick<Sessions, "get">;
}

/** Feeds the sinks of corp.toml and of the person. Their code is loaded only where there is one. */
export class EventFeeds {
  readonly #sources: FeedSources;
  #feeds: Feed[] = [];
  /** sinks of the open feeds, as JSON */
  #terms = "[]";
  #problem = "";
  readonly #own: OwnSinks;
  /** why the person's sinks get nothing */
  #ownProblem = "";
  #closed = false;
  #round: Promise<void> = Promise.resolve();
  /** feeds that are sending; a slow one goes on while the others have their next rounds */
  readonly #sending = new Map<Feed, Promise<void>>();
  /** the last opening; the next one waits for it */
  #opening: Promise<unknown> = Promise.resolve();

  constructor(sources: FeedSources) {
    this.#sources = sources;
    this.#own = new OwnSinks(sources.home);
  }

  begin(): void {
    if (this.#closed) return;
    backgroundTimeout(() => {
      this.#round = this.round().then(() => this.begin());
    }, ROUND_MS);
  }

  /** Starts to send its missing events to each sink that is not sending. */
  async round(): Promise<void> {
    try {
      const feeds = await this.#open();
      // Feeds of the terms before, which are ending, write the same cursors.
      if (feeds.length === 0 || [...this.#sending.keys()].some((feed) => !feeds.includes(feed))) return;
      const { home, registry } = this.#sources;
      const running = new Set(registry.alive().map(({ record }) => record.id));
      const ids: string[] = [];
      for await (const { name } of Deno.readDir(join(home.dir, "ledgers"))) ids.push(name);
      for (const feed of feeds) {
        if (this.#closed || this.#sending.has(feed)) continue;
        const sending = feed.round(ids, (id) => running.has(id))
          .catch((error) => log.warn(asSbxError(error, "sending events")))
          .finally(() => this.#sending.delete(feed));
        this.#sending.set(feed, sending);
      }
      this.#problem = "";
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      const problem = `events are not sent: ${(error as Error).message}`;
      if (problem !== this.#problem) log.warn(problem);
      this.#problem = problem;
    }
  }

  /** Waits for the feeds that are sending now. */
  async settled(): Promise<void> {
    await Promise.all(this.#sending.values());
  }

  status(): FeedStatus[] {
    return this.#feeds.map((feed) => feed.status());
  }

  /** Sinks that events wait for, and events that one lacks, each as one line. */
  problems(): string[] {
    const lines = this.status().flatMap((
      { id, lag, refused, set_aside, set_aside_file, dropped, last_error },
    ) => [
      ...(last_error === null ? [] : [
        `${count(lag, "event")} wait for the sink "${id}": ${last_error}; they are sent once it takes them`,
      ]),
      ...(refused > set_aside
        ? [`the sink "${id}" refused ${count(refused, "event")}; the ledgers have them`]
        : []),
      ...(set_aside
        ? [
          `the sink "${id}" never took ${
            count(set_aside, "event")
          }; ${set_aside_file} names them, until it is removed`,
        ]
        : []),
      ...(dropped ? [`the sink "${id}" lacks ${count(dropped, "event")} whose ledgers were removed`] : []),
    ]);
    return [this.#problem, this.#ownProblem].filter(Boolean).concat(lines);
  }

  /** Each sink with the events that wait for it now. */
  async standing(): Promise<FeedStanding[]> {
    const feeds = await this.#open();
    if (feeds.length === 0) return [];
    const ids: string[] = [];
    try {
      for await (const { name } of Deno.readDir(join(this.#sources.home.dir, "ledgers"))) ids.push(name);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    return await Promise.all(feeds.map((feed) => feed.standing(ids)));
  }

  /** Sends a test event to each sink. */
  async try(): Promise<SinkTrial[]> {
    return await Promise.all((await this.#open()).map((feed) => feed.try()));
  }

  /** True if the ledger of an ended session may be removed. */
  async release(sessionId: string): Promise<boolean> {
    const feeds = await this.#open();
    const answers = await Promise.all(feeds.map((feed) => feed.release(sessionId)));
    if (!answers.every(Boolean)) return false;
    await Promise.all(feeds.map((feed) => feed.forget(sessionId)));
    return true;
  }

  /**
   * True if every sink of corp has all events of an ended session: a person's own keeps no record from them.
   */
  async isSent(sessionId: string): Promise<boolean> {
    const feeds = (await this.#open()).filter((feed) => feed.status().owner === "corp");
    return (await Promise.all(feeds.map((feed) => feed.isSent(sessionId)))).every(Boolean);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const feed of this.#feeds) feed.close();
    await this.#round;
    await this.settled();
  }

  /**
   * Sinks of a file that is not valid, or not within corp's limits, get nothing, and a status line says why.
   */
  async #ownSinks(corp: Parameters<OwnSinks["read"]>[0]): Promise<FeedSink[]> {
    try {
      const sinks = await this.#own.read(corp);
      this.#ownProblem = "";
      return sinks;
    } catch (error) {
      const { message, hint } = asSbxError(error, "reading sinks.toml");
      const problem = hint === undefined ? message : `${message} (${hint})`;
      if (problem !== this.#ownProblem) log.warn(problem);
      this.#ownProblem = problem;
      return [];
    }
  }

  /** Two at once would open each feed twice. */
  #open(): Promise<Feed[]> {
    const opening = this.#opening.then(() => this.#openChanged());
    this.#opening = opening.catch(ignore("its own caller has the failure"));
    return opening;
  }

  async #openChanged(): Promise<Feed[]> {
    const { home, corp, sessions } = this.#sources;
    // A corp.toml that cannot be read switches no sink off.
    if (!("config" in corp.state) && corp.state.status !== "absent") return this.#feeds;
    const file = "config" in corp.state ? corp.state.config.file : undefined;
    const sinks: (readonly [owner: "corp" | "user", sink: FeedSink])[] = [
      ...(file?.sinks ?? []).map((sink) => ["corp", sink] as const),
      ...(await this.#ownSinks(file)).map((sink) => ["user", sink] as const),
    ];
    const terms = JSON.stringify(sinks);
    if (terms === this.#terms) return this.#feeds;
    for (const feed of this.#feeds) feed.close();
    const { Feed, senderOf } = await import("../../ledger/feed/mod.ts");
    if (this.#closed) return [];
    this.#feeds = sinks.map(([owner, sink]) => {
      const { id, credential_ref, user } = sink;
      const authorize = credential_ref === undefined
        ? undefined
        : sinkAuthorization(home, { credential_ref, ...(user !== undefined && { user }) });
      return new Feed({
        sink,
        owner,
        sender: senderOf(sink, authorize),
        dir: join(home.dir, "sinks", `${owner === "corp" ? "events" : "own"}-${id}`),
        ledgerOf: (session) => sessionPaths(home, session).ledger,
        contextOf: async (session) => {
          // An event goes out also when the index cannot be read.
          const entry = await sessions.get(session).catch(() => undefined);
          const made_by = makerOf(entry);
          return { ...(entry && { vm_name: entry.name }), ...(made_by && { made_by }) };
        },
        // A person keeps no record past the retention of corp by a sink that is away.
        ...(owner === "user" && { heldBytes: 0 }),
        onProblem: log.warn,
      });
    });
    this.#terms = terms;
    return this.#feeds;
  }
}
