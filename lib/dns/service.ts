import { SbxError } from "../base/error/mod.ts";
import { type Decision, type Gate, summary } from "../policy/mod.ts";
import { DnsCache, type Known } from "./cache.ts";
import { chainOf } from "./chain.ts";
import { GivenAddresses } from "./given.ts";
import { type Actor, type Asker, draftOf, responseOf } from "./draft.ts";
import { PacketError } from "./guard.ts";
import { type CacheLimits, OVERRIDE_TTL, PENDING_MAX } from "./limit.ts";
import type { Overrides, Target } from "./override.ts";
import { type DnsRecord, EDE, isAlwaysEmpty, isName, plainName, type Question } from "./packet.ts";
import { readQuery, readQuestion } from "./read.ts";
import type { Resolver } from "./resolver.ts";
import { Upstream, UpstreamError } from "./upstream.ts";
import { type Reply, writeRefusal, writeReply } from "./write.ts";

export interface DnsOptions {
  gate: Gate;
  resolvers: readonly Resolver[];
  overrides?: Overrides;
  cacheLimits?: Partial<CacheLimits>;
  /** milliseconds that a resolver gets for an answer */
  tryMs?: number;
}

/** How a question ended. */
type Answered =
  | { known: Known }
  | { blocked: Decision }
  | { failed: { code: number; text: string } };

/**
 * The DNS of one guest (spec.md, "Events"; contracts.md §5). Every question is a `dns.query` event before anything of
 * it leaves the host; an answer from elsewhere is looked at again before the guest gets it, so that no name leads into
 * a private network. A block is NXDOMAIN with an Extended DNS Error 15 that says why, a failure SERVFAIL with one.
 */
export class DnsService {
  readonly #gate: Gate;
  readonly #cache: DnsCache;
  readonly #upstream: Upstream;
  readonly #overrides?: Overrides;
  readonly #given = new GivenAddresses();
  /** queries that are under way, by their bytes: a client that asks again waits for the same answer */
  readonly #pending = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();

  constructor({ gate, resolvers, overrides, cacheLimits, tryMs }: DnsOptions) {
    this.#gate = gate;
    this.#cache = new DnsCache(cacheLimits);
    this.#upstream = new Upstream(resolvers, tryMs);
    this.#overrides = overrides;
  }

  /** The answer to a query of the guest, whatever its bytes are. Never throws. */
  answer(query: Uint8Array, by: Asker): Promise<Uint8Array<ArrayBuffer>> {
    const key = `${by.proto} ${by.process_name} ${latin1.decode(query)}`;
    const pending = this.#pending.get(key);
    if (pending) return pending;
    const answer = this.#answer(query, by).finally(() => this.#pending.delete(key));
    this.#pending.set(key, answer);
    return answer;
  }

  /** Whether this guest was told that `name` is at `address`. */
  agrees(name: string, address: string): boolean {
    return this.#given.agrees(name, address);
  }

  /** The name that this guest got `address` for, the latest of several. */
  nameOf(address: string): string | undefined {
    return this.#given.nameOf(address) ?? this.#overrides?.nameOf(address);
  }

  /** Where a connection really goes that a name of `network.upstream_overrides`, or its made-up address, stands for. */
  target(name: string | undefined, address: string, port: number): Target | undefined {
    const named = name ?? this.#overrides?.nameOf(address);
    return named === undefined ? undefined : this.#overrides?.target(named, port);
  }

  /**
   * Addresses of a name, for requests that the host makes. It is a `dns.query` event like the guest's own.
   *
   * @throws {SbxError} `policy.blocked`, `dns.not_found` without an address, `dns.upstream` when no resolver answers,
   * `ledger.unavailable`
   */
  async lookup(name: string, actor: Actor = "host"): Promise<string[]> {
    for (const type of ["A", "AAAA"]) {
      const answered = await this.#resolve({ name, type }, { proto: "udp", process_name: "" }, actor);
      if ("blocked" in answered) {
        throw new SbxError("policy.blocked", `${name} is not looked up: ${summary(answered.blocked)}`);
      }
      if ("failed" in answered) {
        throw new SbxError("dns.upstream", `${name} cannot be looked up: ${answered.failed.text}`, {
          hint: "is this machine's DNS resolver reachable?",
        });
      }
      const addresses = addressesOf(answered.known.records);
      if (addresses.length > 0) return addresses;
      if (answered.known.rcode === "NXDOMAIN") break;
    }
    throw new SbxError("dns.not_found", `${name} has no address`, { hint: "is the name written correctly?" });
  }

  async #answer(bytes: Uint8Array, by: Asker): Promise<Uint8Array<ArrayBuffer>> {
    try {
      const query = readQuery(bytes);
      if (this.#pending.size > PENDING_MAX) {
        throw new PacketError("questions", "too many queries wait already");
      }
      const answered = await this.#resolve(query, by, "vm");
      return writeReply(query, replyTo(answered), by.proto);
    } catch (error) {
      if (!(error instanceof PacketError)) return writeRefusal(bytes, "SERVFAIL", reasonOf(error), EDE.OTHER);
      return this.#refuse(bytes, by, error);
    }
  }

  /** What cannot be read is an event too, as far as there is something to say of it. */
  #refuse(bytes: Uint8Array, by: Asker, { guard, message }: PacketError): Uint8Array<ArrayBuffer> {
    const { name = "", type = "" } = readQuestion(bytes);
    try {
      const { decision } = this.#gate.refuse(draftOf({ name, type }, by, "vm"), {
        id: `guard-dns-${guard}`,
        reason: `a DNS query is refused: ${message}`,
      });
      const rcode = guard === "type" ? "NOTIMP" : guard === "questions" ? "REFUSED" : "FORMERR";
      return writeRefusal(bytes, rcode, summary(decision), EDE.BLOCKED);
    } catch (error) {
      return writeRefusal(bytes, "SERVFAIL", reasonOf(error), EDE.OTHER);
    }
  }

  /** Event, decision, answer. @throws {SbxError} `ledger.unavailable`: what cannot be recorded must not happen */
  async #resolve(question: Question, by: Asker, actor: Actor): Promise<Answered> {
    const began = performance.now();
    const known = this.#known(question);
    const verdict = await this.#gate.decide(draftOf(question, by, actor, known));
    const { event, decision, allowed } = verdict;
    if (!allowed) return { blocked: decision };
    const meant = { ...question, name: event.dns!.request.qname, type: event.dns!.request.qtype };
    const same = meant.name === plainName(question.name) && meant.type === question.type;
    if (same && known) {
      this.#gate.finish(event, { duration_ms: performance.now() - began });
      return this.#give(question, known);
    }
    // A rule asks something else than the guest did: the answer is that of the other name, under the guest's own.
    const asked = same ? question : meant;
    try {
      const found = this.#known(asked) ?? await this.#ask(asked);
      const records = same ? found.records : found.records.map((record) => renamed(record, asked, question));
      const response = responseOf({ ...found, records });
      const reviewed = { ...event, dns: { ...event.dns!, response } };
      const after = this.#gate.review(reviewed);
      const duration_ms = performance.now() - began;
      if (after.decision === "block") {
        this.#gate.finish(reviewed, { response, duration_ms });
        return { blocked: after };
      }
      this.#gate.finish(event, { response, duration_ms });
      return this.#give(question, { ...found, records });
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      const { code, message: text } = error;
      this.#gate.finish(event, { error: text, duration_ms: performance.now() - began });
      return { failed: { code, text } };
    }
  }

  /** What needs no resolver. */
  #known(question: Question): Known | undefined {
    const address = this.#overrides?.addressOf(question.name);
    if (address !== undefined) {
      const record = { name: question.name, type: "A", ttl: OVERRIDE_TTL, data: address };
      return { rcode: "NOERROR", records: question.type === "A" ? [record] : [] };
    }
    if (isAlwaysEmpty(question.type)) return { rcode: "NOERROR", records: [] };
    return this.#cache.get(question);
  }

  async #ask(question: Question): Promise<Known> {
    if (question.name !== "." && !isName(question.name)) {
      throw new UpstreamError(`"${question.name}" is no name`);
    }
    const { rcode, records, negativeTtl, bytes } = await this.#upstream.ask(question);
    return this.#cache.set(question, { rcode, records: chainOf(question, records) }, bytes, negativeTtl);
  }

  #give({ name }: Question, known: Known): Answered {
    this.#given.remember(name, addressesOf(known.records));
    return { known };
  }
}

const latin1 = new TextDecoder("latin1");

function renamed(record: DnsRecord, from: Question, to: Question): DnsRecord {
  return plainName(record.name) === plainName(from.name) ? { ...record, name: to.name } : record;
}

function addressesOf(records: readonly DnsRecord[]): string[] {
  return records.filter(({ type }) => type === "A" || type === "AAAA").map(({ data }) => data);
}

function replyTo(answered: Answered): Reply {
  if ("known" in answered) return answered.known;
  if ("blocked" in answered) {
    return { rcode: "NXDOMAIN", error: { code: EDE.BLOCKED, text: summary(answered.blocked) } };
  }
  return { rcode: "SERVFAIL", error: answered.failed };
}

/** A failure of ours, in words that a guest may see. */
function reasonOf(error: unknown): string {
  return error instanceof SbxError ? error.message : "sbx could not answer this query";
}
