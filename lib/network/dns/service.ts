/**
 * DNS of one guest: each question is decided on before a resolver gets it (docs/design/contracts/05-policy.md
 * §5).
 */
import {
  canonicalHost,
  isHostZone,
  isPrivateHost,
  METADATA_ALIAS,
  METADATA_NAME,
  plainHost,
} from "../../base/address/mod.ts";
import { guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { type Decision, type Draft, type Gate, guestLine } from "../../policy/mod.ts";
import { HELD_MS } from "../../policy/ask/mod.ts";
import { type DnsAnswer, DnsCache, ResolvedAddresses } from "./cache.ts";
import { PacketError } from "./guard.ts";
import {
  ANSWER_TEXT_MAX,
  type CacheLimits,
  CHAIN_MAX,
  OVERRIDE_TTL,
  PENDING_MAX,
  UDP_HELD_MS,
} from "./limit.ts";
import type { Overrides } from "./override.ts";
import {
  type DnsQuestion,
  type DnsRecord,
  type DnsReply,
  EDE,
  isAlwaysEmpty,
  isName,
  readQuery,
  readQuestion,
  writeRefusal,
  writeReply,
  writeTruncated,
} from "./packet.ts";
import { type Resolver, ResolverClient, ResolverError } from "./resolver.ts";
import { type EventProcess, processOf } from "../../event/mod.ts";

export interface DnsOptions {
  gate: Gate;
  resolvers: readonly Resolver[];
  overrides?: Overrides;
  /** true where the host answers in place of Google's metadata server */
  hasMetadata?: () => boolean;
  cacheLimits?: Partial<CacheLimits>;
  /** timeout of one try at a resolver in `ms` */
  tryMs?: number;
  /** `ms` after which a query of the guest that waits for a person is answered */
  heldMs?: number;
}

/** Encodes an answer for a client. */
type Reply = (proto: DnsClient["proto"]) => Uint8Array<ArrayBuffer>;

/** Outcome of a question. */
type Resolution =
  | { answer: DnsAnswer }
  | { blocked: Decision }
  | { failed: { code: number; text: string } };

/**
 * DNS of one guest (docs/design/contracts/05-policy.md §5). Every question is a `dns.query` event before any
 * of it leaves the host. An answer of a resolver is reviewed before the guest gets it, so that no name leads
 * into a private network. A block is NXDOMAIN with an Extended DNS Error 15 that gives the reason, a failure
 * is SERVFAIL with an Extended DNS Error.
 */
export class DnsService {
  readonly #gate: Gate;
  readonly #cache: DnsCache;
  readonly #resolvers: ResolverClient;
  readonly #overrides?: Overrides;
  readonly #hasMetadata: () => boolean;
  readonly #heldMs: number;
  readonly #addresses = new ResolvedAddresses();
  /**
   * pending queries by client and bytes: a client that repeats a query, also over
   * TCP, waits for the same answer
   */
  readonly #pending = new Map<string, Promise<Reply>>();

  constructor(
    { gate, resolvers, overrides, hasMetadata = () => false, cacheLimits, tryMs, heldMs = HELD_MS }:
      DnsOptions,
  ) {
    this.#gate = gate;
    this.#heldMs = heldMs;
    this.#cache = new DnsCache(cacheLimits);
    this.#resolvers = new ResolverClient(resolvers, tryMs);
    this.#overrides = overrides;
    this.#hasMetadata = hasMetadata;
  }

  /**
   * Answers a query of the guest, of any bytes. Never throws. A client gives up on UDP within seconds, a
   * person takes longer: a query that is not answered soon is referred to TCP, where the client waits.
   */
  async answer(query: Uint8Array, client: DnsClient): Promise<Uint8Array<ArrayBuffer>> {
    const key = `${client.process_name} ${client.container?.id} ${latin1.decode(query)}`;
    let pending = this.#pending.get(key);
    if (!pending) {
      pending = this.#answer(query, client).finally(() => this.#pending.delete(key));
      this.#pending.set(key, pending);
    }
    if (client.proto === "tcp") return (await pending)("tcp");
    let timer: ReturnType<typeof setTimeout> | undefined;
    const held = new Promise<undefined>((resolve) =>
      timer = setTimeout(() => resolve(undefined), UDP_HELD_MS)
    );
    const reply = await Promise.race([pending, held]);
    clearTimeout(timer);
    return reply ? reply("udp") : writeTruncated(readQuery(query));
  }

  /**
   * True when this guest received `address` for `name`; a private one only while the active rules allow it.
   */
  agrees(name: string, address: string): boolean {
    return this.#addresses.agrees(name, address) && this.#mayLeadTo(name, address);
  }

  /** Latest name for which this guest received `address`, by the rules of {@linkcode agrees}. */
  nameOf(address: string): string | undefined {
    const name = this.#addresses.nameOf(address);
    return name !== undefined && this.#mayLeadTo(name, address) ? name : this.#overrides?.nameOf(address);
  }

  /** Evaluates the answer again: names and addresses are kept longer than rules. */
  #mayLeadTo(name: string, address: string): boolean {
    if (!isPrivateHost(address)) return true;
    const type = address.includes(":") ? "AAAA" : "A";
    const answer: DnsAnswer = {
      rcode: "NOERROR",
      records: [{ name, type, ttl: 0, data: canonicalHost(address)! }],
    };
    const draft = draftOf({ name, type }, { proto: "udp", process_name: "" }, "vm", answer);
    return this.#gate.preview(draft).decision.decision !== "block";
  }

  /**
   * Resolves a name for a request of the host. A `dns.query` event, like the guest's own.
   *
   * @throws {SbxError} `policy.blocked`; `dns.not_found` without an address; `dns.upstream` without an answer
   * of a resolver; `ledger.unavailable`
   */
  async lookup(name: string, actor: Actor = "host"): Promise<string[]> {
    for (const type of ["A", "AAAA"]) {
      const resolution = await this.#resolve({ name, type }, { proto: "udp", process_name: "" }, actor);
      if ("blocked" in resolution) {
        throw new SbxError(
          "policy.blocked",
          `the lookup of ${name} was blocked: ${guestLine(resolution.blocked)}`,
        );
      }
      if ("failed" in resolution) {
        throw new SbxError("dns.upstream", `${name} cannot be looked up: ${resolution.failed.text}`, {
          hint: "check that this machine's DNS resolver can be reached",
        });
      }
      const addresses = addressesOf(resolution.answer.records);
      if (addresses.length > 0) return addresses;
      if (resolution.answer.rcode === "NXDOMAIN") break;
    }
    throw new SbxError("dns.not_found", `${name} has no address`, { hint: "check the spelling of the name" });
  }

  async #answer(bytes: Uint8Array, client: DnsClient): Promise<Reply> {
    try {
      const query = readQuery(bytes);
      if (this.#pending.size > PENDING_MAX) {
        throw new PacketError("questions", `${PENDING_MAX} queries are pending, the limit`);
      }
      const resolution = await this.#resolve(query, client, "vm");
      return (proto) => writeReply(query, replyOf(resolution), proto);
    } catch (error) {
      const refusal = error instanceof PacketError
        ? this.#refuse(bytes, client, error)
        : writeRefusal(bytes, "SERVFAIL", errorText(error), EDE.OTHER);
      return () => refusal;
    }
  }

  /** Refuses an unreadable query: an event too, with the question as far as it can be read. */
  #refuse(bytes: Uint8Array, client: DnsClient, { guard, message }: PacketError): Uint8Array<ArrayBuffer> {
    const { name = "", type = "" } = readQuestion(bytes);
    try {
      const decision = this.#gate.refuse(draftOf({ name, type }, client, "vm"), {
        id: `guard-dns-${guard}`,
        reason: `the DNS query was refused: ${message}`,
      });
      const rcode = guard === "type" ? "NOTIMP" : guard === "questions" ? "REFUSED" : "FORMERR";
      return writeRefusal(bytes, rcode, guestLine(decision), EDE.BLOCKED);
    } catch (error) {
      return writeRefusal(bytes, "SERVFAIL", errorText(error), EDE.OTHER);
    }
  }

  /**
   * Decides on a question, then answers it.
   * @throws {SbxError} `ledger.unavailable`: without its record nothing is sent
   */
  async #resolve(question: DnsQuestion, client: DnsClient, actor: Actor): Promise<Resolution> {
    const local = this.#answerLocally(question);
    const draft = draftOf(question, client, actor, local);
    const passage = await this.#gate.decide(
      draft,
      undefined,
      undefined,
      actor === "vm" ? this.#heldMs : undefined,
    );
    if (!passage.allowed) return { blocked: passage.decision };
    const { qname, qtype } = passage.event.dns!.request;
    const isSame = qname === qnameOf(question.name) && qtype === question.type;
    if (isSame && local) {
      passage.finish();
      return this.#deliver(question, local);
    }
    try {
      // A rule may have changed the question: the answer to the new name is given under the guest's own.
      const effective = isSame ? question : { ...question, name: qname, type: qtype };
      const answer = this.#answerLocally(effective) ?? await this.#query(effective);
      const records = isSame
        ? answer.records
        : answer.records.map((record) => renameRecord(record, effective, question));
      const response = responseOf({ ...answer, records });
      const block = passage.review(response);
      passage.finish({ response });
      if (block) return { blocked: block };
      return this.#deliver(question, { ...answer, records });
    } catch (error) {
      passage.finish({ error: error instanceof SbxError ? error.message : errorText(error) });
      if (!(error instanceof ResolverError)) throw error;
      return { failed: { code: error.code, text: error.message } };
    }
  }

  /**
   * Answers without a resolver: from overrides, for the metadata server, for types that are
   * always empty, and from the cache.
   */
  #answerLocally(question: DnsQuestion): DnsAnswer | undefined {
    const isMetadata = plainHost(question.name) === METADATA_NAME && this.#hasMetadata();
    const address = isMetadata ? METADATA_ALIAS : this.#overrides?.addressOf(question.name);
    if (address !== undefined) {
      const record = { name: question.name, type: "A", ttl: OVERRIDE_TTL, data: address };
      return { rcode: "NOERROR", records: question.type === "A" ? [record] : [] };
    }
    if (isHostZone(question.name)) return { rcode: "NXDOMAIN", records: [] };
    if (isAlwaysEmpty(question.type)) return { rcode: "NOERROR", records: [] };
    return this.#cache.get(question);
  }

  /** @throws {ResolverError} */
  async #query(question: DnsQuestion): Promise<DnsAnswer> {
    if (question.name !== "." && !isName(question.name)) {
      throw new ResolverError(`invalid name "${question.name}"`);
    }
    const { rcode, records, negativeTtl, bytes } = await this.#resolvers.query(question);
    return this.#cache.set(question, { rcode, records: chainOf(question, records) }, bytes, negativeTtl);
  }

  /** Remembers the addresses that the guest receives. */
  #deliver({ name }: DnsQuestion, answer: DnsAnswer): Resolution {
    this.#addresses.remember(name, addressesOf(answer.records));
    return { answer };
  }
}

const latin1 = new TextDecoder("latin1");

function renameRecord(record: DnsRecord, from: DnsQuestion, to: DnsQuestion): DnsRecord {
  return plainHost(record.name) === plainHost(from.name) ? { ...record, name: to.name } : record;
}

function addressesOf(records: readonly DnsRecord[]): string[] {
  return records.filter(({ type }) => type === "A" || type === "AAAA").map(({ data }) => data);
}

function replyOf(resolution: Resolution): DnsReply {
  if ("answer" in resolution) return resolution.answer;
  if ("blocked" in resolution) {
    const { blocked } = resolution;
    // A name that does not exist is kept by clients, and a failure is looked up again.
    const rcode = blocked.answered?.open ? "SERVFAIL" : "NXDOMAIN";
    return { rcode, error: { code: EDE.BLOCKED, text: guestLine(blocked) } };
  }
  return { rcode: "SERVFAIL", error: resolution.failed };
}

/** Text of an error that a guest may see. */
function errorText(error: unknown): string {
  if (error instanceof SbxError) return guestErrorBody(error).error;
  return error instanceof ResolverError ? error.message : "sbx could not answer this query";
}

/** Records of an answer that belong to its question, along its CNAMEs; a resolver may send unrelated ones. */
function chainOf({ name, type }: DnsQuestion, records: readonly DnsRecord[]): DnsRecord[] {
  const chain: DnsRecord[] = [];
  const seen = new Set<string>();
  for (let owner = plainHost(name); !seen.has(owner) && seen.size < CHAIN_MAX;) {
    seen.add(owner);
    const owned = records.filter((record) => plainHost(record.name) === owner);
    chain.push(...owned.filter((record) => record.type === type));
    const alias = type === "CNAME" ? undefined : owned.find((record) => record.type === "CNAME");
    if (!alias) break;
    chain.push(alias);
    owner = plainHost(alias.data);
  }
  return chain;
}

// Drafts of DNS events (docs/design/contracts/05-policy.md §5).

/** Client of a query, as the guest reports it: for the event only. */
export interface DnsClient {
  proto: "udp" | "tcp";
  /** empty when unknown */
  process_name: string;
  container?: EventProcess["container"];
}

type Actor = "vm" | "host";

/**
 * Drafts the event of a question.
 * @param answer its answer, if it needs no resolver: then one decision is enough
 */
export function draftOf(
  { name, type }: DnsQuestion,
  client: DnsClient,
  actor: Actor,
  answer?: DnsAnswer,
): Draft {
  const process = processOf(client.process_name, 0, client.container);
  return {
    common: { event_type: "dns.query", source_engine: "network", actor, ...(process && { process }) },
    dns: {
      request: { qname: qnameOf(name), qtype: type, transport: client.proto },
      ...(answer && { response: responseOf(answer) }),
    },
  };
}

/** Name of a question in its event: as rules match hosts, where it can be a host. */
function qnameOf(name: string): string {
  return canonicalHost(name) ?? plainHost(name);
}

/** Response object of an event. */
function responseOf({ rcode, records }: DnsAnswer): { rcode: string; answers: string[] } {
  return { rcode, answers: records.map(answerText) };
}

/**
 * Text of a record in an event (docs/design/contracts/05-policy.md §5, `dns.response.answers`): an address, a
 * name, or its text.
 */
export function answerText({ type, data }: DnsRecord): string {
  return textOf(type, data).slice(0, ANSWER_TEXT_MAX);
}

// deno-lint-ignore no-explicit-any -- dns-packet gives each type of record another form
function textOf(type: string, data: any): string {
  switch (type) {
    case "A":
    case "AAAA":
      return canonicalHost(data) ?? data;
    case "CNAME":
    case "NS":
    case "PTR":
      return plainHost(data);
    case "MX":
      return plainHost(data.exchange);
    case "SRV":
      return plainHost(data.target);
    case "SOA":
      return plainHost(data.mname);
    case "NAPTR":
      return plainHost(data.replacement);
    case "CAA":
      return `${data.tag} ${data.value}`;
    default:
      // TXT: strings of one text
      return data.map((part: Uint8Array) => new TextDecoder().decode(part)).join("");
  }
}
