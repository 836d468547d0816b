/**
 * Events of SSH: git as over HTTPS, anything else a `CONNECT` (docs/design/contracts/05-policy.md §5, "SSH").
 */
import type { HttpGit, HttpSsh } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { connectDraft, httpDraft, NO_HTTP_BODY } from "../exchange/draft.ts";
import { formatAuthority, type Requester } from "../exchange/request.ts";
import type { GitCommand } from "./command.ts";

/** The server, and who asks. */
export interface SshPlace {
  by: Requester;
  host: string;
  port: number;
}

/** Drafts the event of a command that is not of git. */
export function commandDraft({ by, host, port }: SshPlace, ssh: HttpSsh): Draft {
  return withSsh(connectDraft(by, "ssh", host, port, "ssh"), ssh);
}

/**
 * Drafts the event of one of git's two steps, as over HTTPS.
 *
 * @param step `list`: asks for refs; `call`: the client's request then
 * @param bytes of it, as far as known
 */
export function gitDraft(
  { by, host, port }: SshPlace,
  ssh: HttpSsh,
  { service, path, rawPath }: GitCommand,
  step: "list" | "call",
  bytes = 0,
  git: HttpGit | undefined = { service, updates: [] },
): Draft {
  const target = step === "list" ? `${path}/info/refs?service=${service}` : `${path}/${service}`;
  const draft = httpDraft(by, {
    method: step === "list" ? "GET" : "POST",
    scheme: "ssh",
    host,
    port,
    target,
    ...(rawPath !== undefined && { rawPath }),
    headers: [["host", formatAuthority("ssh", host, port)]],
    bytes,
    body: NO_HTTP_BODY,
    ...(git && { git }),
  });
  return withSsh(draft, ssh);
}

function withSsh(draft: Draft, ssh: HttpSsh): Draft {
  return { ...draft, http: { request: { ...draft.http!.request, ssh } } };
}
