/** Shipping to a receiver over HTTP (docs/design/contracts/12-ledger.md §12). */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { hostFetch, untrustedIssuer } from "../../base/proxy/mod.ts";
import { z } from "zod";
import type { LogAnswer } from "../log/mod.ts";
import { Heads, HEX64 } from "../segment/mod.ts";
import { parsePublicKeys } from "../../release/signing/mod.ts";
import { type PublicKey, type SigningKey, verifySignature } from "../../release/mod.ts";
import type { Receipt, SegmentTarget } from "./target.ts";
import { blake3 } from "../../base/hash/mod.ts";

/** Longest wait for one answer, in `ms`. */
const ANSWER_MS = timeLimit(60_000);
/** Most characters read of an answer. */
const ANSWER_MAX = 64 * 1024;

const hash = z.string().regex(HEX64);
/** A receiver's answer about its log. */
const LogBody = z.object({
  size: z.int().min(0),
  root: hash,
  /** two hashes for each doubling of the entries */
  proof: z.array(hash).max(128).optional(),
  head: z.string().max(4096),
  key: z.string().max(1024),
});

/** Makes the `authorization` header of a request. */
export type Authorize = (url: URL) => Promise<string>;

/** A receiver (`sbx-admin fleet serve`), perhaps behind a proxy that requires credentials. */
export class HttpTarget implements SegmentTarget {
  readonly name: string;

  /** @param key of an enrolled machine; only enrolment needs none */
  constructor(readonly base: string, readonly key?: SigningKey, readonly authorize?: Authorize) {
    this.name = new URL(base).origin;
  }

  async send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt> {
    const { status, body } = await this.post("v1/segments", segment, "application/vnd.sbx.ledger-segment");
    if (status < 300) return { kept: true };
    const position = Heads.safeParse((body as { position?: unknown }).position);
    if (status === 409 && position.success) return { kept: false, position: position.data };
    throw this.#failure(status, body);
  }

  async report(envelope: string): Promise<void> {
    const bytes = new TextEncoder().encode(envelope);
    const { status, body } = await this.post("v1/reports", bytes, "application/vnd.dsse+json");
    if (status >= 300) throw this.#failure(status, body);
  }

  async log(seen: { size: number; root: string }): Promise<LogAnswer | undefined> {
    const bytes = new TextEncoder().encode(JSON.stringify(seen));
    const { status, body } = await this.post("v1/log", bytes, "application/json");
    // A receiver from before the log.
    if (status === 404) return undefined;
    if (status >= 300) throw this.#failure(status, body);
    const parsed = LogBody.safeParse(body);
    const keys = parsed.success ? parsePublicKeys(parsed.data.key, "the collector's answer") : [];
    if (!parsed.success || keys.length !== 1) {
      throw new SbxError("fleet.log.invalid", `the collector ${this.name} gives no head of its log`);
    }
    const { head, key: _, ...rest } = parsed.data;
    return { ...rest, signed: { head, key: keys[0] } };
  }

  /** Enrols a machine. @throws {SbxError} `fleet.unavailable`, `fleet.denied`, `fleet.refused` */
  async enrol(request: unknown): Promise<void> {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const { status, body } = await this.post("v1/machines", bytes, "application/json");
    if (status >= 300) throw this.#failure(status, body);
  }

  /** Enrols a home. @param request its certificate, by its machine @throws as {@linkcode enrol} */
  async enrolHome(request: unknown): Promise<void> {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const { status, body } = await this.post("v1/homes", bytes, "application/json");
    if (status >= 300) throw this.#failure(status, body);
  }

  async post(
    path: string,
    bytes: Uint8Array<ArrayBuffer>,
    type: string,
  ): Promise<{ status: number; body: unknown }> {
    const url = new URL(path, this.base.endsWith("/") ? this.base : `${this.base}/`);
    const authorization = await this.authorize?.(url).catch((cause) => {
      const { message, hint } = asSbxError(cause, `authenticating to ${this.name}`);
      throw new SbxError("fleet.unavailable", message, { hint: hint ?? KEPT });
    });
    try {
      const response = await hostFetch(url, {
        method: "POST",
        headers: {
          "content-type": type,
          ...(this.key && { [UPLOAD_HEADER]: await signUpload(this.key, path, bytes) }),
          ...(authorization && { authorization }),
        },
        body: bytes,
        // A redirect would lead to a collector outside the configuration.
        redirect: "manual",
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      return { status: response.status, body: await readJson(response) };
    } catch (cause) {
      const untrusted = await untrustedIssuer(url, cause);
      const problem = untrusted ? `cannot be used: ${untrusted.problem}` : "does not answer";
      throw new SbxError("fleet.unavailable", `the collector ${this.name} ${problem}`, {
        cause,
        hint: untrusted ? `${untrusted.hint}; ${KEPT}` : KEPT,
      });
    }
  }

  #failure(status: number, body: unknown): SbxError {
    const { error, hint } = body as { error?: string; hint?: string };
    const said = typeof error === "string" ? `: ${plain(error).slice(0, 300)}` : "";
    const message = `the collector ${this.name} answers with status ${status}${said}`;
    // Anything else passes: a full disk there, a proxy between, a wrong password.
    const isRefused = [400, 413, 415, 422].includes(status);
    const code = status === 403 ? "fleet.denied" : isRefused ? "fleet.refused" : "fleet.unavailable";
    return new SbxError(code, message, {
      hint: typeof hint === "string" ? plain(hint).slice(0, 300) : KEPT,
    });
  }
}

const KEPT = "the rows are kept in the ledgers of this machine, and sent later";

async function readJson(response: Response): Promise<unknown> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > ANSWER_MAX) break;
  }
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

// Head of an upload: gives the receiver the sender, length and hash of a body before its first byte:
// `sbx-fleet-upload: <machine id> <BLAKE3 of the body> <signature, base64>`.

export const UPLOAD_HEADER = "sbx-fleet-upload";

const HEADER = /^([0-9a-f]{64}) ([0-9a-f]{64}) ([A-Za-z0-9+/]{86}==)$/;

/** Properties of an announced upload. */
export interface Upload {
  machine_id: string;
  /** `bytes` */
  length: number;
  /** BLAKE3, 64 hex characters */
  hash: string;
}

/** Value of {@linkcode UPLOAD_HEADER} for a body. */
export async function signUpload(key: SigningKey, path: string, bytes: Uint8Array): Promise<string> {
  const upload = { machine_id: key.publicKey.id, length: bytes.length, hash: blake3(bytes) };
  const signature = await key.sign(signedText(path, upload));
  return `${upload.machine_id} ${upload.hash} ${signature.toBase64()}`;
}

/**
 * Reads the head of an upload.
 *
 * @param path last parts of the URL, "v1/segments"
 * @throws {SbxError} `fleet.upload.unsigned`: no signature, no length, or another's; `fleet.machine.unknown`
 */
export async function openUpload(
  headers: Headers,
  path: string,
  keyOf: (id: string) => Promise<PublicKey | undefined>,
): Promise<Upload> {
  const [, machine_id, hash, signature] = HEADER.exec(headers.get(UPLOAD_HEADER) ?? "") ?? [];
  const length = /^\d{1,15}$/.test(headers.get("content-length") ?? "")
    ? Number(headers.get("content-length"))
    : NaN;
  if (signature === undefined || Number.isNaN(length)) {
    throw unsigned("the head of the upload names no machine, hash, signature and length");
  }
  const key = await keyOf(machine_id);
  if (!key) {
    throw new SbxError("fleet.machine.unknown", `machine ${machine_id} is not enrolled`, {
      hint: "run sbx fleet enrol on it",
    });
  }
  const upload = { machine_id, length, hash };
  if (await verifySignature(key, Uint8Array.fromBase64(signature), signedText(path, upload))) return upload;
  throw unsigned(`the head of the upload is not signed by machine ${machine_id}`);
}

function signedText(path: string, { length, hash }: Upload): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`sbx.fleet-upload.v1\n${path}\n${length}\n${hash}\n`);
}

function unsigned(message: string): SbxError {
  return new SbxError("fleet.upload.unsigned", message, {
    hint: "update sbx on the machine, and let no proxy change its headers or the length of its bodies",
  });
}
