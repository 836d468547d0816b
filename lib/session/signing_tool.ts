/**
 * Signatures for a guest's git (docs/design/contracts/09-credentials.md §9, "Commits and tags"): a tool of
 * the built-in MCP server, which the guest's program sbx-sign calls. A person or a rule decides on the commit
 * that was read, and these bytes alone are signed.
 */
import { createHash } from "node:crypto";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { CredentialBroker, SigningKey } from "../credential/mod.ts";
import type { SignEvent } from "../event/mod.ts";
import { type LocalTool, reportWaiting } from "../mcp/endpoint/mod.ts";
import { PerMinute } from "../mcp/mod.ts";
import { type Draft, guestLine } from "../policy/mod.ts";
import { type Ident, PAYLOAD_MAX, PENDING_MAX, PER_MINUTE, readObject, signPayload } from "../sign/mod.ts";
import type { SessionGate } from "./gate/mod.ts";

/** Parts of a session that the tool needs. */
export interface SigningParts {
  gate: Pick<SessionGate, "decide" | "observe">;
  broker: Pick<CredentialBroker, "signingKey" | "refresh">;
}

type CallOptions = Parameters<LocalTool["run"]>[1];

export function signingTool(parts: SigningParts): LocalTool {
  const calls = new PerMinute(PER_MINUTE);
  let pending = 0;
  return {
    entry: {
      namespaced_name: "local__git_sign",
      title: "Sign a commit or tag",
      description: "Signs a commit or tag object of git with the key of this VM's user, who may be asked. " +
        "git calls it by itself: git commit -S, git tag -s.",
      input_schema: {
        type: "object",
        properties: {
          payload: {
            type: "string",
            maxLength: base64Length(PAYLOAD_MAX),
            description: "base64 of the object without a signature",
          },
        },
        required: ["payload"],
        additionalProperties: false,
      },
      annotations: { readOnlyHint: false, openWorldHint: false },
    },
    isOffered: () => {
      try {
        parts.broker.signingKey();
        return true;
      } catch {
        return false;
      }
    },
    run: async (args, options) => {
      if (!calls.take() || pending >= PENDING_MAX) {
        throw new SbxError(
          "sign.invalid",
          `a VM may ask for ${PENDING_MAX} signatures at once and ${PER_MINUTE} a minute`,
          { hint: "wait until your user has answered, and commit again" },
        );
      }
      pending++;
      try {
        const answer = await signed(parts, payloadOf(args), options);
        return { content: [{ type: "text", text: answer.signature }], structuredContent: answer };
      } finally {
        pending--;
      }
    },
  };
}

function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

function payloadOf({ payload }: Record<string, unknown>): Uint8Array {
  if (typeof payload !== "string") {
    throw new SbxError("mcp.arguments.invalid", 'git_sign: "payload" must be base64');
  }
  if (payload.length > base64Length(PAYLOAD_MAX)) {
    throw new SbxError("sign.invalid", `the commit or tag is over the limit of ${PAYLOAD_MAX} bytes`, {
      hint: "shorten the message, or commit without a signature: git commit --no-gpg-sign",
    });
  }
  try {
    return Uint8Array.fromBase64(payload);
  } catch {
    throw new SbxError("mcp.arguments.invalid", 'git_sign: "payload" must be base64');
  }
}

/** Decides on a payload, and signs exactly it. */
async function signed(
  { gate, broker }: SigningParts,
  payload: Uint8Array,
  { signal, progress }: CallOptions,
): Promise<{ signature: string; format: string; fingerprint: string }> {
  const request = readObject(payload);
  await broker.refresh();
  const key = broker.signingKey();
  const draft: Draft = {
    common: { event_type: "sign.request", source_engine: "mcp" },
    sign: { request: requestOf(request, key, payload) },
  };
  let answered: (() => void) | undefined;
  const passage = await gate.decide(draft, signal, ({ ask_id }) => {
    answered = reportWaiting(ask_id, progress, () => {});
  }).finally(() => answered?.());
  if (!passage.allowed) throw new SbxError("policy.blocked", guestLine(passage.decision));
  const { format, fingerprint } = key.terms;
  try {
    // The key may have been revoked, or granted no more, while a person was asked.
    await broker.refresh();
    const { terms, secret, released } = broker.signingKey(key.ref);
    const signature = await signPayload(terms, secret, payload, AbortSignal.any([signal, released]));
    broker.signingKey(key.ref);
    recordUse(gate, key, { outcome: "injected" });
    return { signature, format, fingerprint };
  } catch (error) {
    const { code, message } = asSbxError(error, "signing");
    recordUse(gate, key, { outcome: code === "credential.denied" ? "denied" : "error", reason: message });
    throw error;
  }
}

function requestOf(
  { kind, subject, author, committer, object, parents, tag }: ReturnType<typeof readObject>,
  { terms: { format, fingerprint, emails = [] } }: SigningKey,
  payload: Uint8Array,
): SignEvent["request"] {
  return {
    author: identLine(author),
    author_email: author.email,
    bytes: payload.length,
    committer: identLine(committer),
    committer_email: committer.email,
    digest: createHash("sha256").update(payload).digest("hex"),
    format,
    kind,
    object,
    own: [author, committer].every(({ email }) => emails.includes(email)),
    parents,
    signer: fingerprint,
    subject,
    ...(tag !== undefined && { tag }),
  };
}

function identLine({ name, email }: Ident): string {
  return `${name} <${email}>`;
}

function recordUse(
  gate: SigningParts["gate"],
  { ref }: SigningKey,
  end: { outcome: "injected" | "denied" | "error"; reason?: string },
): void {
  gate.observe({
    common: { event_type: "credential.substitution", source_engine: "mcp" },
    credential: { substitution: { provider: "signing", credential_ref: ref, location: "signature", ...end } },
  });
}
