/** One signed request: checks the guest's signature, and signs again with the stored keys. */
import type { CredentialSubstitution, HttpAws } from "../../event/mod.ts";
import { awsEndpoint, isRegionOf } from "../../network/aws/mod.ts";
import { formatAuthority } from "../../base/address/mod.ts";
import type {
  ChunkSignatures,
  Destination,
  Header,
  Injected,
  RequestSignature,
  SignedRequest,
} from "../../network/interface/mod.ts";
import { deniedError, type Grant } from "../grant.ts";
import { REASON } from "../reason.ts";
import { ASYMMETRIC, hasRegion, isSignedBy, signAsymmetric } from "./asymmetric.ts";
import { EMPTY_HASH, scopeText, sha256, signedText, signingKey, signText } from "./canonical.ts";
import { AwsChunks, type ChunkPlan, chunkPlanOf, claimsChunks, isChunkedPayload } from "./chunks.ts";
import type { Claim } from "./claim.ts";
import { awsKeysOf } from "./keys.ts";
import { mintsKeys } from "./minting.ts";
import { isSameText } from "./placeholder.ts";

/** Part of the broker that a signature needs. */
export interface AwsTerms {
  /** secret of the guest's placeholder */
  placeholder: string;
  /** the credential names hosts, and they are not Amazon's */
  hasHosts: boolean;
  /** Grants the stored secret for a destination. @throws {CredentialDenied} */
  grant(to: Destination, location: string): Grant;
  /** Replaces refs in the other fields. @throws {CredentialDenied} */
  inject(to: Destination, headers: Header[]): Injected;
  /** Row of a use, for the ledger. */
  row(to: Destination, location: string): Omit<CredentialSubstitution, "outcome">;
}

/** Furthest that the time of a signature is from now, in `ms`: as S3 has it. */
const WINDOW_MS = 15 * 60_000;
const TOKEN = "x-amz-security-token";
const CONTENT_HASH = "x-amz-content-sha256";
const UNSIGNED = "UNSIGNED-PAYLOAD";
const HASH = /^[0-9a-f]{64}$/;
/** Parameters of a presigned request that the host writes. */
const OWN_PARAMETERS = /^X-Amz-(?:Credential|Signature|Security-Token|SignedHeaders)=/i;

/** Signature of a placeholder. */
export class AwsSignature implements RequestSignature {
  readonly #terms: AwsTerms;
  readonly #claim: Claim;
  readonly #request: SignedRequest;
  /** why the request may not be sent; `undefined` once {@linkcode check} has accepted it */
  #fault: string | undefined = REASON.badSignature;
  /** how the body is cut into chunks; known after {@linkcode check} */
  #plan?: ChunkPlan;
  #chunks?: AwsChunks;

  constructor(terms: AwsTerms, claim: Claim, request: SignedRequest) {
    this.#terms = terms;
    this.#claim = claim;
    this.#request = request;
  }

  get scope(): { service: string; region: string } {
    const { service, region } = this.#claim;
    return { service, region };
  }

  get needsBody(): boolean {
    const declared = this.#declared(this.#request.headers);
    return declared === undefined && !this.#isUnsigned;
  }

  get chunks(): (() => ChunkSignatures) | undefined {
    // sign() sets the chunks; the body is read only after it.
    return this.#plan && (() => this.#chunks!);
  }

  check(body: Uint8Array, isWhole: boolean): void {
    this.#fault = this.#faultOf(body, isWhole, Date.now());
  }

  requireHarmless(aws: HttpAws | undefined): void {
    if (aws && mintsKeys(aws, this.#request.target)) this.#fault ??= REASON.mintsKeys;
  }

  sign({ method, target, headers, ...to }: SignedRequest, body: Uint8Array | undefined): Injected {
    const location = this.#location;
    const row = this.#terms.row(to, location);
    // First, since its refusal of a host that is not Amazon's says more than a wrong signature.
    const { secret, signal } = this.#terms.grant(to, location);
    const fault = this.#fault ?? this.#scopeFault(to.host);
    if (fault !== undefined) throw deniedError({ ...row, outcome: "denied", reason: fault });
    const keys = awsKeysOf(secret);
    if (!keys) throw deniedError({ ...row, outcome: "error", reason: REASON.notOpen });
    const claim = this.#claim;
    const rest = headers.filter(([name]) => !this.#isOwn(name));
    const injected = this.#terms.inject(to, [[":path", withoutOwn(target)], ...rest]);
    const [[, plain], ...fields] = injected.headers;
    const signed = this.#withHash(fields, body);
    const isPresigned = claim.place === "presigned";
    if (keys.token !== undefined && !isPresigned) signed.push([TOKEN, keys.token]);
    const signedHeaders = this.#namesOf(signed);
    const all: Header[] = [["host", formatAuthority(to.scheme, to.host, to.port)], ...signed];
    const credential = `${keys.id}/${scopeText(claim)}`;
    const path = isPresigned
      ? withParameters(plain, {
        "X-Amz-Credential": credential,
        "X-Amz-SignedHeaders": signedHeaders.join(";"),
        ...(keys.token !== undefined && { "X-Amz-Security-Token": keys.token }),
      })
      : plain;
    const payload = this.#payloadOf(all, path, body);
    const payloadFault = this.#payloadFault(payload);
    if (payload === undefined || payloadFault !== undefined) {
      throw deniedError({ ...row, outcome: "denied", reason: payloadFault ?? REASON.longBody });
    }
    const text = signedText({ method, target: path, headers: all, signedHeaders, payload }, claim);
    const key = signingKey(keys.secret, claim);
    const signature = this.#isAsymmetric ? signAsymmetric(keys, text) : signText(key, text);
    this.#chunks = this.#plan && this.#chunksOf(this.#plan, to, { key, seed: signature });
    const used = {
      substitutions: [...injected.substitutions, { ...row, outcome: "injected" as const }],
      released: injected.released ? AbortSignal.any([injected.released, signal]) : signal,
    };
    if (isPresigned) {
      return { ...used, headers: [[":path", `${path}&X-Amz-Signature=${signature}`], ...signed] };
    }
    const value = `${claim.algorithm} Credential=${credential}, SignedHeaders=${
      signedHeaders.join(";")
    }, Signature=${signature}`;
    return { ...used, headers: [[":path", path], ...signed, ["authorization", value]] };
  }

  /** Why a body with this hash may not be signed: a rule may have changed it since {@linkcode check}. */
  #payloadFault(payload: string | undefined): string | undefined {
    if (payload === undefined) return REASON.longBody;
    const isAsChecked = this.#plan ? payload === this.#plan.payload : !isChunkedPayload(payload);
    return isAsChecked ? undefined : REASON.badChunks;
  }

  /** Signatures of the body's chunks: theirs are checked, and ours take their place. */
  #chunksOf(plan: ChunkPlan, to: Destination, ours: { key: Uint8Array; seed: string }): AwsChunks {
    const theirs = { key: signingKey(this.#terms.placeholder, this.#claim), seed: this.#claim.signature };
    const row = this.#terms.row(to, "body");
    return new AwsChunks(
      plan,
      this.#claim,
      { theirs, ours },
      (reason) => deniedError({ ...row, outcome: "denied", reason }),
    );
  }

  get #isAsymmetric(): boolean {
    return this.#claim.algorithm === ASYMMETRIC;
  }

  get #location(): string {
    return this.#claim.place === "header" ? "authorization" : "query X-Amz-Signature";
  }

  /** Fields that the host writes. */
  #isOwn(name: string): boolean {
    return name === TOKEN || name === "authorization" && this.#claim.place === "header";
  }

  /** A presigned S3 request leaves its body out, unless it says otherwise. */
  get #isUnsigned(): boolean {
    return this.#claim.place === "presigned" && this.#claim.service.startsWith("s3");
  }

  #declared(headers: readonly Header[]): string | undefined {
    return headers.find(([name]) => name === CONTENT_HASH)?.[1].trim();
  }

  #faultOf(body: Uint8Array, isWhole: boolean, now: number): string | undefined {
    const { host, port, scheme, method, target, headers, length } = this.#request;
    const claim = this.#claim;
    const hashes = headers.filter(([name]) => name === CONTENT_HASH);
    if (hashes.length > 1 || headers.filter(([name]) => name === "x-amz-date").length > 1) {
      return REASON.unreadableSignature;
    }
    const all: Header[] = [["host", formatAuthority(scheme, host, port)], ...headers];
    if (length !== undefined) all.push(["content-length", String(length)]);
    const names = new Set(all.map(([name]) => name));
    const isCovered = claim.signedHeaders.every((name) => names.has(name)) &&
      [...names].every((name) => !name.startsWith("x-amz-") || claim.signedHeaders.includes(name));
    if (!isCovered) return REASON.badSignature;
    const payload = this.#payloadOf(all, target, isWhole ? body : undefined);
    if (payload === undefined) return REASON.longBody;
    if (HASH.test(payload) && isWhole && sha256(body) !== payload) return REASON.badSignature;
    if (isChunkedPayload(payload) && claim.service.startsWith("s3")) {
      this.#plan = chunkPlanOf(payload, headers);
      // Each chunk of these is signed by HMAC, whatever signed the request.
      if (!this.#plan || this.#isAsymmetric && this.#plan.isSigned) return REASON.badChunks;
    } else if (!HASH.test(payload) && payload !== UNSIGNED) return REASON.unreadableSignature;
    // Some servers read the chunks of any such body, and others only of one that says how they are signed.
    if (!this.#plan && claimsChunks(headers)) return REASON.badChunks;
    const { signedHeaders } = claim;
    const text = signedText(
      { method, target: withoutSignature(target), headers: all, signedHeaders, payload },
      claim,
    );
    if (!this.#isSigned(text)) return REASON.badSignature;
    return this.#scopeFault(host) ?? this.#timeFault(now);
  }

  /** Tests the guest's signature, which is made with its placeholder. */
  #isSigned(text: string): boolean {
    const { id, signature } = this.#claim;
    const { placeholder } = this.#terms;
    return this.#isAsymmetric
      ? isSignedBy({ id, secret: placeholder }, text, signature)
      : isSameText(signText(signingKey(placeholder, this.#claim), text), signature);
  }

  /** Hash of the body as it is signed; `undefined` for a body that is not held whole. */
  #payloadOf(headers: readonly Header[], target: string, body: Uint8Array | undefined): string | undefined {
    const declared = this.#declared(headers);
    if (declared !== undefined) return declared;
    const parameter = /[?&]X-Amz-Content-Sha256=([^&]+)/i.exec(target)?.[1];
    if (this.#isUnsigned) return parameter ?? UNSIGNED;
    return body === undefined ? undefined : body.length === 0 ? EMPTY_HASH : sha256(body);
  }

  /** The fields with the hash of the body as it is now: rules and the broker may have changed it. */
  #withHash(fields: readonly Header[], body: Uint8Array | undefined): Header[] {
    return fields.map(([name, value]): Header =>
      name === CONTENT_HASH && body !== undefined && HASH.test(value.trim())
        ? [name, sha256(body)]
        : [name, value]
    );
  }

  /** Fields to sign: the guest's, and all of Amazon's. The length is the connection's to write. */
  #namesOf(fields: readonly Header[]): string[] {
    const names = new Set(fields.map(([name]) => name));
    const wanted = this.#claim.signedHeaders.filter((name) => name !== "content-length" && names.has(name));
    const amazons = [...names].filter((name) => name.startsWith("x-amz-"));
    return [...new Set(["host", ...wanted, ...amazons])].sort();
  }

  #scopeFault(host: string): string | undefined {
    const { service, region } = this.#claim;
    if (this.#terms.hasHosts) return undefined;
    const endpoint = awsEndpoint(host);
    // sign() refuses any other host by its grant.
    if (!endpoint) return undefined;
    const isRegion = this.#isAsymmetric
      // A host of several regions says none: the signature alone names them.
      ? endpoint.region === undefined || hasRegion(region, endpoint.region)
      : isRegionOf(host, endpoint, region);
    const fits = endpoint.services.includes(service) && isRegion;
    return fits ? undefined : REASON.wrongScope;
  }

  #timeFault(now: number): string | undefined {
    const { date, expires } = this.#claim;
    const at = Date.parse(
      date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"),
    );
    const end = expires === undefined ? at + WINDOW_MS : at + expires * 1000;
    return at - WINDOW_MS <= now && now <= end ? undefined : REASON.notNow;
  }
}

/** A presigned request's target as it was signed. */
function withoutSignature(target: string): string {
  return target.replace(
    /([?&])X-Amz-Signature=[0-9a-f]+(&|$)/,
    (_, before, after) => after ? before : "",
  );
}

/** The target without the parameters that the host writes. */
function withoutOwn(target: string): string {
  const mark = target.indexOf("?");
  if (mark < 0) return target;
  const pairs = target.slice(mark + 1).split("&").filter((pair) => !OWN_PARAMETERS.test(pair));
  return pairs.length === 0 ? target.slice(0, mark) : `${target.slice(0, mark)}?${pairs.join("&")}`;
}

function withParameters(target: string, parameters: Record<string, string>): string {
  const added = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
  return `${target}${target.includes("?") ? "&" : "?"}${added}`;
}
