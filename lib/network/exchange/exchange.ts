/**
 * One request in five steps: describe it, decide on it, decide on its model call, send it, relay the response
 * (docs/concepts/network.md, docs/design/contracts/05-policy.md §5).
 */
import { asSbxError } from "../../base/error/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { CredentialSubstitution, Event } from "../../event/mod.ts";
import type { Decision, Draft, Passage } from "../../policy/mod.ts";
import { ClientLost, ConnectionLost } from "../fault.ts";
import { BUFFERED_BODY_MAX } from "../limit.ts";
import { AnnouncedBody, type BodySource, NO_BODY, RestOfBody, WholeBody } from "../message/body.ts";
import { NO_BYTES } from "../message/bytes.ts";
import { encodingOf } from "../message/encoding.ts";
import { acceptIdentity, acceptWhole, dropHeader, type Header } from "../message/header.ts";
import {
  type BodyFilter,
  type BodyPlace,
  CredentialDenied,
  type HostAnswer,
  type Injected,
  type ModelCall,
  type RequestSignature,
} from "../interface/mod.ts";
import { upstreamError } from "../upstream/connect.ts";
import { type ExchangeReply, Flight } from "../upstream/pool.ts";
import type { PinnedDestination } from "../upstream/upstream.ts";
import { BodyBuffer, type BufferedBody, CountedBody, emptyBody, replacementBody } from "./body_buffer.ts";
import { CachedExchange } from "./cached.ts";
import type { ExchangeContext, Outlet } from "./context.ts";
import {
  type Captured,
  describeBody,
  describeRequest,
  type DraftedRequest,
  httpDraft,
  NO_HTTP_BODY,
  requesterOf,
  rewriteBody,
  rewriteHead,
  rewriteUpgrade,
  substitutionDraft,
} from "./draft.ts";
import { type CapturedHead, formatAuthority, type IncomingRequest, type Requester } from "./request.ts";
import { seekPacked } from "./decoy.ts";
import { bodyPlaceOf, prepareBody, searchEncoded, TOO_LONG } from "./filtered_body.ts";
import { AwsChunkedBody } from "./aws_chunks.ts";
import { GrpcBody, GrpcCounts, grpcOf, hasMessage, mayStream } from "./grpc.ts";
import { CallMessages } from "./grpc_message.ts";
import { awsOf, signAnew, signedRequestOf } from "./aws.ts";
import { drainBody, GitExchange } from "./git.ts";
import { REQUEST_BODY, requestRefusal, RESPONSE_BODY } from "./guards.ts";
import { LaterTap, modelBodyOf, modelRequestOf, ModelTap, type ModelVerdict } from "./model_tap.ts";
import { errorText, ResponseRelay } from "./response_relay.ts";
import { Revocation, revokedError } from "./revocation.ts";
import { releaseWindows, SocketExchange, takeWindows } from "./socket.ts";
import type { Deflate } from "../websocket/mod.ts";
import { splitTarget } from "../message/head.ts";
import { lenientPath } from "../../base/url/mod.ts";

/** One request and its response. Every failure is answered and recorded. */
export class HttpExchange {
  readonly #context: ExchangeContext;
  readonly #incoming: IncomingRequest;
  readonly #outlet: Outlet;
  readonly #flight = new Flight();
  #by: Requester;
  #passage?: Passage;
  #tap?: ModelTap;
  /** reader of an answer that is fetched after its call */
  #later?: LaterTap;
  #bodyBuffer?: BodyBuffer;
  /** signature with the placeholder of a key */
  #signature?: RequestSignature;
  #chunked?: AwsChunkedBody;
  /** messages of a call of gRPC */
  #grpc?: GrpcCounts;
  /** reader of their fields, for rules */
  #messages?: CallMessages;
  /** compression of a WebSocket, whose windows are counted as buffered */
  #deflate?: Deflate;
  /** the client is gone, and the answer is read on */
  #lingering?: number;

  constructor(context: ExchangeContext, incoming: IncomingRequest, outlet: Outlet) {
    this.#context = context;
    this.#incoming = incoming;
    this.#by = incoming.by;
    this.#outlet = outlet;
  }

  /** @throws {ClientLost} the request is incomplete, or the client does not take the response */
  async run(): Promise<void> {
    try {
      await this.#runSteps();
    } catch (error) {
      await this.#fail(error);
    } finally {
      clearTimeout(this.#lingering);
      this.#bodyBuffer?.release();
      this.#chunked?.release();
      this.#messages?.release();
      releaseWindows(this.#context.budget, this.#deflate);
    }
  }

  async #runSteps(): Promise<void> {
    const captured = this.#capture();
    if (this.#incoming.expects) {
      if (await this.#announce(captured)) return;
      await this.#outlet.proceed?.();
    }
    const request = await this.#describe(captured);
    const unreadable = requestRefusal(this.#context, request.draft, request);
    if (unreadable) return await this.#refuse(unreadable, request);
    const passage = await this.#decide(request.draft);
    if (!passage.allowed) return await this.#refuse(passage.decision, request);
    this.#passage = passage;
    await this.#continue(passage, request);
  }

  /** Carries out the decision on a request. */
  async #continue(passage: Passage, request: DraftedRequest): Promise<void> {
    let { head, call } = request;
    let bytes: Uint8Array | undefined;
    if (passage.decision.rewrites.length > 0) {
      const [before, after] = [request.draft.http!.request, passage.event.http!.request];
      head = rewriteHead(head, before, after);
      bytes = rewriteBody(request.body, before.body, after.body);
      // The rewritten request may be a call to another provider.
      call = this.#context.models?.match(modelRequestOf(after, head));
      const refusal = requestRefusal(this.#context, { ...request.draft, http: { request: after } });
      if (refusal) return await this.#block(passage, refusal);
    }
    if (call) {
      const verdict = await this.#decideModelCall(call, { ...request, head }, bytes);
      if (verdict?.allowed === false) return await this.#block(passage, verdict.decision);
      if (verdict) head = { ...head, headers: acceptIdentity(head.headers) };
      bytes = verdict?.body ?? bytes;
    } else head = this.#awaitLater(passage.event, head);
    const encoding = bytes ? undefined : encodingOf(head.headers);
    if (encoding !== undefined) {
      const filter = this.#context.broker.bodies(bodyPlaceOf(passage.event, head, "request"));
      const { found, plain } = await searchEncoded(request.body, encoding, filter);
      if (found === "too long") {
        const refusal = this.#context.gate.refuse({ ...request.draft, http: passage.event.http! }, TOO_LONG);
        return await this.#block(passage, refusal, TOO_LONG.reason);
      }
      bytes = plain;
    }
    await request.messages?.checkComplete(
      request.body,
      this.#context.gate,
      passage,
      () => this.#requireClient(),
    );
    if (!bytes) await seekPacked(this.#context.broker, passage.event.http!.request.host, request.body.first);
    if (bytes) head = { ...head, headers: dropHeader(head.headers, "content-encoding") };
    await this.#send(passage, head, bytes ? replacementBody(bytes) : request.body);
  }

  /** Reads the answer to a request for a result that a budget has yet to count. */
  #awaitLater(event: Event, head: CapturedHead): CapturedHead {
    const { gate, models } = this.#context;
    if (!gate.countsModels) return head;
    const answer = models?.later?.(modelRequestOf(event.http!.request, head));
    if (!answer || !gate.awaitsUse(answer.key)) return head;
    this.#later = new LaterTap(gate, answer);
    return { ...head, headers: acceptIdentity(head.headers) };
  }

  /** Puts refs in place of secrets in the head, and finds its readers. */
  #capture(): Captured {
    const { broker, models } = this.#context;
    const { host, method, target, headers } = this.#incoming;
    this.#signature = broker.signature?.(signedRequestOf(this.#incoming));
    const captured = broker.capture(host, [[":path", target], ...headers]);
    const head: CapturedHead = {
      method,
      target: captured.headers[0][1],
      headers: captured.headers.slice(1),
    };
    const call = models?.match(modelRequestOf(this.#incoming, head));
    return { head, substitutions: captured.substitutions, call, git: GitExchange.match(head) };
  }

  /**
   * Asks policy, and then the upstream, for a body that the client holds back until `100 Continue`: a refusal
   * of either reaches the client before it sends the body. The announcement is an event of its own, without a
   * body; the request with its body is another, and decided on again.
   *
   * @returns false for a request whose decision needs the body
   */
  async #announce(captured: Captured): Promise<boolean> {
    const { gate, broker } = this.#context;
    const { head, call, git } = captured;
    const { body, upgrade } = this.#incoming;
    const needsBody = this.#signature !== undefined || call !== undefined || git !== undefined ||
      upgrade !== undefined || CallMessages.of(this.#context, head) !== undefined ||
      encodingOf(head.headers) !== undefined || gate.reads(REQUEST_BODY) ||
      broker.answers?.({ host: this.#incoming.host, path: lenientPath(splitTarget(head.target).path) });
    if (needsBody) return false;
    const draftOf = (rest: BodySource) => {
      const nothing: BufferedBody = { first: NO_BYTES, complete: false, rest };
      const scrub = (text: string) => broker.scrub(text);
      const described = describeRequest(this.#incoming, head, nothing, NO_HTTP_BODY, undefined, scrub);
      return labelled(httpDraft(this.#by, described), { expect: "100-continue" });
    };
    // Rules on `http.request.bytes` see the length that was announced.
    const whole = draftOf(body);
    const { allowed, decision } = gate.preview(whole);
    if (decision.decision === "ask" || decision.rewrites.length > 0) return false;
    const draft = allowed ? draftOf(NO_BODY) : whole;
    this.#by = requesterOf(draft.common);
    this.#recordCapture(captured);
    this.#watchClient();
    const passage = await gate.decide(draft, this.#outlet.signal);
    if (!passage.allowed) {
      await this.#outlet.sendBlock(passage.decision);
      return true;
    }
    if (passage.decision.rewrites.length > 0) {
      // Rules that changed since the preview.
      passage.finish({ error: "decided on again, with its body" });
      return false;
    }
    this.#passage = passage;
    const outgoing: OutgoingBody = {
      body: new AnnouncedBody(body.length, async () => {
        const taken = await this.#takeAnnounced(passage, captured);
        if (body.length !== undefined && taken.body.length !== body.length) {
          throw new SentAnew(() => this.#send(this.#passage!, head, taken));
        }
        Object.assign(outgoing, { ...taken, body: outgoing.body });
        return taken.body;
      }),
    };
    try {
      await this.#send(passage, head, outgoing);
    } catch (error) {
      if (!(error instanceof SentAnew)) throw error;
      await error.send();
    }
    return true;
  }

  /**
   * Asks the client for its body, and decides on the request with it.
   * @throws {SentAnew} the decision is not to send it as announced
   */
  async #takeAnnounced(announcement: Passage, captured: Captured): Promise<OutgoingBody> {
    announcement.markFirstByte();
    announcement.finish({ response: { status: 100, bytes: 0, headers: {}, body: NO_HTTP_BODY } });
    await this.#outlet.proceed?.();
    const request = await this.#describe(captured);
    request.draft = labelled(request.draft, { event_id: announcement.event.common.event_id });
    const refusal = requestRefusal(this.#context, request.draft, request);
    if (refusal) throw new SentAnew(() => this.#refuse(refusal, request));
    const passage = await this.#decide(request.draft);
    if (!passage.allowed) throw new SentAnew(() => this.#refuse(passage.decision, request));
    this.#passage = passage;
    if (passage.decision.rewrites.length > 0) throw new SentAnew(() => this.#continue(passage, request));
    const taken = this.#prepare(passage.event, request.head, request.body);
    const revocation = this.#watchRevocation({}, taken.filter);
    return { ...taken, ...(revocation && { revocation }) };
  }

  #recordCapture(captured: Captured): void {
    this.#recordSubstitutions(captured.substitutions);
    captured.substitutions = [];
  }

  /** Step 1: buffers the body, and drafts the event. */
  async #describe(captured: Captured): Promise<DraftedRequest> {
    const { broker, gate } = this.#context;
    const { by } = this.#incoming;
    const { head, call, git } = captured;
    const signature = this.#signature;
    const grpc = grpcOf(head);
    if (grpc) this.#grpc = new GrpcCounts();
    const messages = this.#messages = CallMessages.of(this.#context, head);
    // Of a push, the pack is searched.
    const isWhole = signature?.needsBody || git && broker.seeksDecoys;
    const needed = isWhole
      ? BUFFERED_BODY_MAX
      : Math.max(call?.bodyMax ?? 0, git?.bodyMax ?? 0, messages?.bodyMax ?? 0);
    const body = this.#incoming.body.done ? this.#takeEmptyBody() : await this.#bufferBody(
      encodingOf(head.headers) === undefined ? needed : BUFFERED_BODY_MAX,
      (needed === 0 || messages !== undefined) && mayStream(this.#incoming, head),
    );
    if (messages && grpc) Object.assign(grpc, await messages.read(body));
    if (git) await git.read(head, body, this.#outlet);
    const scrub = (text: string, isCut?: boolean) => broker.scrub(text, isCut);
    const httpBody = body.first.length > 0
      ? await describeBody(head, body, gate.reads(REQUEST_BODY), scrub)
      : NO_HTTP_BODY;
    signature?.check(body.first, body.complete);
    const aws = awsOf(this.#incoming, head, body, signature);
    signature?.requireHarmless(aws?.field);
    const described = describeRequest(this.#incoming, head, body, httpBody, git?.field, scrub);
    const draft = httpDraft(by, { ...described, ...(aws && { aws: aws.field }), ...(grpc && { grpc }) });
    this.#by = requesterOf(draft.common);
    this.#recordCapture(captured);
    const awsFault = aws?.fault;
    return {
      draft,
      head,
      body,
      call,
      git,
      ...(awsFault !== undefined && { awsFault }),
      ...(messages && { messages }),
    };
  }

  /** Refuses a request before any of it was sent. */
  async #refuse(decision: Decision, { git, body }: DraftedRequest): Promise<void> {
    if (git) await drainBody(body);
    await this.#outlet.sendBlock(decision);
  }

  /** Step 3: decides on the model call. @param rewritten the body as rules rewrote it */
  async #decideModelCall(
    call: ModelCall,
    { head, body }: Pick<DraftedRequest, "head" | "body">,
    rewritten: Uint8Array | undefined,
  ): Promise<ModelVerdict | undefined> {
    const { gate, broker } = this.#context;
    const plain = await modelBodyOf(head, body, rewritten);
    this.#tap = new ModelTap(gate, call);
    const scrub = (text: string, isCut?: boolean) => broker.scrub(text, isCut);
    const { signal, heldMs } = this.#outlet;
    return await this.#tap.decide(this.#by, plain, scrub, signal, heldMs);
  }

  /** Decides on a request; its client is answered while a person is still asked. */
  #decide(draft: Draft): Promise<Passage> {
    const { signal, heldMs } = this.#outlet;
    return this.#context.gate.decide(draft, signal, undefined, heldMs);
  }

  /** Refuses a request that policy had allowed. */
  async #block(
    passage: Passage,
    decision: Decision,
    error = "the model call was blocked by policy",
  ): Promise<void> {
    this.#tap?.end(error, { unsent: true });
    passage.finish({ error, decision: attachDecision(decision, passage.event) });
    await this.#outlet.sendBlock(decision);
  }

  /** Passes a body through the broker. */
  #prepare(event: Event, head: CapturedHead, content: BufferedBody): OutgoingBody {
    const { broker, gate, budget } = this.#context;
    const passage = this.#passage;
    const isKnown = content.rest.length !== undefined;
    const buffered = content.complete || !passage
      ? content
      : { ...content, rest: new CountedBody(content.rest, passage, isKnown) };
    const { scheme, host, port } = event.http!.request;
    const filter = this.#requestFilter(event, head, buffered);
    const chunks = this.#signature?.chunks;
    if (chunks) {
      const { first, complete, rest } = buffered;
      const whole = complete ? new WholeBody(first) : new RestOfBody(first, rest);
      this.#chunked = new AwsChunkedBody(whole, chunks, filter, budget);
      return { body: this.#chunked, ...(filter && { filter }), streams: true };
    }
    const trailersOf = (trailers: readonly Header[]) => {
      const { headers, substitutions } = broker.trailers({ scheme, host, port }, trailers);
      this.#recordSubstitutions(substitutions);
      return headers;
    };
    if (this.#grpc && !buffered.complete) {
      const messages = broker.messages({ scheme, host, port, direction: "request" });
      const prepared = prepareBody(buffered, undefined, trailersOf);
      const checked = passage && this.#messages?.checkPassing(prepared, gate, passage, budget);
      return {
        body: new GrpcBody(checked ?? prepared, this.#grpc.requests, () => messages),
        filter: messages,
        streams: true,
      };
    }
    this.#grpc?.requests.read(buffered.first);
    const body = prepareBody(buffered, filter, trailersOf);
    if (buffered.complete && filter) this.#recordSubstitutions(filter.substitutions);
    return { body, ...(filter && { filter }), ...(!buffered.complete && { streams: true }) };
  }

  /** Step 4: puts secrets in place of refs and sends the request; ends when its response is relayed. */
  async #send(passage: Passage, head: CapturedHead, content: BufferedBody | OutgoingBody): Promise<void> {
    const { broker } = this.#context;
    const { event } = passage;
    const { scheme, host, port } = event.http!.request;
    const place = bodyPlaceOf(event, head, "response");
    const answer = await broker.attend?.({
      ...{ scheme, host, port, path: place.path },
      ...{ method: head.method, headers: [[":path", head.target], ...head.headers] },
      ...("first" in content && content.complete && { body: content.first }),
    });
    if (answer) {
      this.#recordSubstitutions(answer.substitutions);
      return await this.#relayResponse(passage, hostReply(answer), place);
    }
    const inject = (body?: BodySource) => {
      const injected = this.#signature
        ? signAnew(this.#signature, { scheme, host, port }, head, broker.guards(place), body)
        : broker.inject({ scheme, host, port }, [[":path", head.target], ...head.headers]);
      this.#recordSubstitutions(injected.substitutions);
      return injected;
    };
    // A signature covers the body as it is sent.
    const early = this.#signature ? undefined : inject();
    const outgoing = "body" in content ? content : this.#prepare(event, head, content);
    const injected = early ?? inject(outgoing.body);
    const cached = this.#cachedExchange(event, head, injected, outgoing.body, place);
    try {
      const stored = await cached?.find();
      if (stored) return await this.#relayResponse(passage, stored, place);
      await this.#sendUpstream(passage, head, injected, outgoing, place, cached);
    } finally {
      cached?.end();
    }
  }

  async #sendUpstream(
    passage: Passage,
    head: CapturedHead,
    injected: Injected,
    outgoing: OutgoingBody,
    place: BodyPlace,
    cached: CachedExchange | undefined,
  ): Promise<void> {
    const { broker, pool, locate } = this.#context;
    const { by, trailers, address, http2 } = this.#incoming;
    const { scheme, host, port } = passage.event.http!.request;
    const upgrade = rewriteUpgrade(this.#incoming.upgrade, passage.event.http!.request);
    const headers = injected.headers.slice(1);
    const isRedirected = host !== this.#incoming.host || port !== this.#incoming.port;
    const dial = await locate(host, port, isRedirected ? undefined : address, by.actor);
    const destination: PinnedDestination = { scheme, host, port, dial };
    const revocation = this.#watchRevocation(injected, outgoing.filter);
    if (upgrade !== undefined) this.#deflate ??= takeWindows(this.#context.budget, this.#incoming.deflate);
    if (this.#tap) this.#requireClient();
    try {
      const reply = await pool.send(destination, {
        method: head.method,
        authority: formatAuthority(scheme, host, port),
        target: injected.headers[0][1],
        headers: broker.guards(place) ? acceptWhole(headers) : headers,
        body: outgoing.body,
        trailers,
        ...(upgrade !== undefined && { upgrade }),
        ...(this.#deflate && !broker.guards(place) && { offersDeflate: true }),
        ...(this.#grpc && { isStream: true }),
        ...(this.#grpc && http2 && this.#incoming.scheme === "http" && scheme === "http" && { h2c: true }),
      }, this.#flight);
      this.#bodyBuffer?.release();
      if (reply.response.status === 401) broker.refused?.(injected.substitutions);
      // A body that was announced has a passage of its own.
      const followed = cached ? await cached.follow(reply) : reply;
      await this.#relayResponse(this.#passage ?? passage, followed, place, dial.hostname);
    } catch (error) {
      if (revocation?.happened || outgoing.revocation?.happened) throw revokedError(error);
      throw error instanceof ClientLost ? error : upstreamError(error, destination);
    } finally {
      revocation?.end();
      outgoing.revocation?.end();
      if (outgoing.streams && outgoing.filter) this.#recordSubstitutions(outgoing.filter.substitutions);
    }
  }

  /**
   * The request as one for an artefact of the shared cache; `undefined` where it has secrets, a
   * body or readers of its answer.
   */
  #cachedExchange(
    event: Event,
    head: CapturedHead,
    injected: Injected,
    body: BodySource,
    place: BodyPlace,
  ): CachedExchange | undefined {
    const { cache, broker } = this.#context;
    if (!cache || this.#tap || this.#later || this.#incoming.upgrade !== undefined) return undefined;
    if (body.length !== 0 || injected.substitutions.length > 0 || broker.guards(place)) return undefined;
    return CachedExchange.of(cache, event.http!.request, head);
  }

  /** Step 5: relays the response to the client. */
  #relayResponse(
    passage: Passage,
    reply: ExchangeReply,
    place: BodyPlace,
    address?: string,
  ): Promise<void> {
    const { broker, gate } = this.#context;
    const { event } = passage;
    const record = (rows: Iterable<CredentialSubstitution>) => void this.#recordSubstitutions(rows);
    const upgrade = rewriteUpgrade(this.#incoming.upgrade, event.http!.request);
    const tap = this.#tap ?? this.#later;
    return new ResponseRelay({
      passage,
      broker,
      outlet: this.#outlet,
      place,
      ...(address !== undefined && { address }),
      record,
      rulesRead: gate.reads(RESPONSE_BODY),
      ...(upgrade !== undefined &&
        { socket: new SocketExchange(this.#context, { event, record, deflate: this.#deflate, place }) }),
      ...(tap && { tap }),
      ...(this.#grpc && { grpc: this.#grpc }),
      linger: () => this.#linger(),
    }).relay(reply);
  }

  #takeEmptyBody(): BufferedBody {
    this.#watchClient();
    return emptyBody(this.#incoming);
  }

  /**
   * @param isGrpc its client may wait for an answer before it sends more: rules
   * on bodies see its first message
   */
  #bufferBody(needed: number, isGrpc = false): Promise<BufferedBody> {
    this.#bodyBuffer = new BodyBuffer(this.#context.budget);
    const { gate, broker } = this.#context;
    const messages = this.#messages;
    const isEnough = messages
      ? (bytes: Uint8Array) => messages.isEnough(bytes)
      : gate.reads(REQUEST_BODY) || broker.seeksDecoys
      ? hasMessage
      : () => true;
    const watch = () => this.#watchClient();
    return this.#bodyBuffer.read(this.#incoming, needed, watch, isGrpc ? isEnough : undefined);
  }

  /** After the request's body nothing is read from the client, so its disconnect has to be watched for. */
  #watchClient(): void {
    this.#outlet.watch(() =>
      this.#tap?.isCounted && this.#flight.begun ? this.#linger() : this.#flight.abort()
    );
  }

  /** @throws {ClientLost} it is gone */
  #requireClient(): void {
    if (this.#flight.aborted) throw new ClientLost(new ConnectionLost("closed the connection"));
  }

  /** Reads the answer of a model on, so that its counts are known, and ends that after a while. */
  #linger(): void {
    this.#lingering ??= backgroundTimeout(() => this.#flight.abort(), this.#context.lingerMs);
  }

  /** Aborts the exchange when one of its credentials is revoked; `undefined` for the many that use none. */
  #watchRevocation(
    injected: Pick<Injected, "released">,
    filter: OutgoingBody["filter"],
  ): Revocation | undefined {
    const signals = [injected.released, filter?.released];
    if (signals.every((signal) => signal === undefined)) return undefined;
    return new Revocation(signals, () => this.#flight.abort());
  }

  #requestFilter(event: Event, head: CapturedHead, body: BufferedBody): BodyFilter | undefined {
    // An encoded body hides its secrets from the filter, and its refs from the upstream.
    const isPlain = (body.first.length > 0 || !body.complete) && encodingOf(head.headers) === undefined;
    return isPlain ? this.#context.broker.bodies(bodyPlaceOf(event, head, "request")) : undefined;
  }

  /** @returns the decision on the last denied substitution */
  #recordSubstitutions(substitutions: Iterable<CredentialSubstitution>): Decision | undefined {
    let denial: Decision | undefined;
    const { gate } = this.#context;
    const event_id = this.#passage?.event.common.event_id;
    for (const substitution of substitutions) {
      const draft = substitutionDraft(this.#by, substitution, event_id);
      if (substitution.outcome !== "denied") gate.observe(draft);
      else {
        const reason = substitution.reason ?? "the credential may not be used there";
        denial = gate.refuse(draft, { id: "guard-credential", reason });
      }
    }
    return denial;
  }

  async #fail(cause: unknown): Promise<void> {
    let denial: Decision | undefined;
    if (cause instanceof CredentialDenied) {
      try {
        denial = this.#recordSubstitutions(cause.substitutions);
      } catch (unrecorded) {
        // The denial stands without its record; the passage and the client still need an end.
        cause = unrecorded;
      }
    }
    const passage = this.#passage;
    const decision = denial && passage && attachDecision(denial, passage.event);
    passage?.finish({ error: errorText(cause), ...(decision && { decision }) });
    this.#tap?.end(errorText(cause), { unsent: !this.#flight.begun });
    if (cause instanceof ClientLost) throw cause;
    const refusal = this.#messages?.refusal;
    if (refusal) await this.#outlet.sendBlock(refusal);
    else await this.#outlet.sendError(asSbxError(cause, "sending the request"));
  }
}

/** An answer of the host as a response. */
function hostReply(
  { status, body, headers: own = [["content-type", "application/json"]] }: HostAnswer,
): ExchangeReply {
  const headers: Header[] = [...own, ["cache-control", "no-store"]];
  return {
    response: { status, headers, body: new WholeBody(body), declared: `${body.length}` },
    exchange: { done() {}, abort() {} },
  };
}

/** Body on its way to the upstream. */
interface OutgoingBody {
  body: BodySource;
  filter?: Pick<BodyFilter, "substitutions" | "released">;
  /** the substitutions of `filter` are complete at the end only */
  streams?: boolean;
  /** of credentials in a body that was announced */
  revocation?: Revocation;
}

/**
 * An announced request that goes out as another one: its body, or the decision on it, does
 * not fit the head that was sent.
 */
class SentAnew extends Error {
  constructor(readonly send: () => Promise<void>) {
    super("the request is sent again");
  }
}

function labelled(draft: Draft, labels: Record<string, string>): Draft {
  return { ...draft, common: { ...draft.common, labels: { ...draft.common.labels, ...labels } } };
}

/** Makes the decision on a substitution or a model call the decision of its request's event. */
function attachDecision(decision: Decision, { common: { event_id } }: Event): Decision {
  return { ...decision, event_id };
}
