/**
 * Requests that hide what rules read are refused, so that no encoding and no WebSocket gets past them
 * (docs/design/contracts/05-policy.md §5, "Guards").
 */
import { providerOf } from "../../event/mod.ts";
import type { Decision, Draft, Gate } from "../../policy/mod.ts";
import type { ModelPort } from "../interface/mod.ts";
import { isUnreadable } from "../message/text.ts";
import { awsRefusal } from "./aws.ts";
import type { ExchangeContext } from "./context.ts";
import type { DraftedRequest } from "./draft.ts";
import { messageRefusal } from "./grpc_message.ts";
import { type GitExchange, REQUEST_GIT } from "./git.ts";
import { socketRequestOf } from "./socket.ts";

/** Parts of events that hold bodies, as {@linkcode Gate.reads} takes them. */
export const REQUEST_BODY = "http.request.body";
export const RESPONSE_BODY = "http.response.body";

/** Refuses a request that hides what rules read; `undefined` for one that may be decided on. */
export function requestRefusal(
  { gate, models }: ExchangeContext,
  draft: Draft,
  { git, awsFault, messages }: Partial<Pick<DraftedRequest, "git" | "awsFault" | "messages">> = {},
): Decision | undefined {
  return bodyRefusal(gate, draft) ?? socketRefusal(gate, models, draft) ?? gitRefusal(gate, draft, git) ??
    awsRefusal(gate, draft, awsFault) ??
    (messages?.fault === undefined ? undefined : gate.refuse(draft, messageRefusal(messages.fault)));
}

/** Refuses a push whose changes are unknown where rules read them. */
function gitRefusal(gate: Gate, draft: Draft, git: GitExchange | undefined): Decision | undefined {
  if (git?.fault === undefined || !gate.reads(REQUEST_GIT)) return undefined;
  return gate.refuse(draft, {
    id: "guard-git",
    reason: `a rule reads git pushes, and this one cannot be read: ${git.fault}`,
    remedy: "push with git over HTTPS, at most 1000 refs at once",
  });
}

/**
 * Refuses a WebSocket to a model provider whose messages are not read, where
 * rules read or budgets count models.
 */
function socketRefusal(gate: Gate, models: ModelPort | undefined, draft: Draft): Decision | undefined {
  const { headers, host } = draft.http!.request;
  const reads = gate.reads("model") ? "a rule reads" : gate.countsModels ? "a budget counts" : undefined;
  if (headers["upgrade"] === undefined || providerOf(host) === undefined || reads === undefined) {
    return undefined;
  }
  if (models?.socket?.(socketRequestOf(draft))) return undefined;
  return gate.refuse(draft, {
    id: "guard-model",
    reason: `${reads} models, and the messages of this WebSocket to a provider cannot be read`,
    remedy: "use the provider's API over HTTPS",
  });
}

/** Refuses a request whose body rules read and cannot. */
function bodyRefusal(gate: Gate, draft: Draft): Decision | undefined {
  if (!gate.reads(REQUEST_BODY) || !isUnreadable(draft.http!.request.body)) return undefined;
  return gate.refuse(draft, {
    id: "guard-body",
    reason: "a rule reads bodies, and the encoding or charset of this one cannot be undone",
    remedy: "send the body as UTF-8, with gzip, deflate, br, zstd or no encoding",
  });
}
