/** HTTP status of each error code, and the JSON body of an error (docs/design/contracts/02-http.md §2). */
import type { SbxError } from "./error.ts";

/** JSON body of every error response (docs/design/contracts/02-http.md §2). */
export interface ErrorBody {
  error: string;
  code: string;
  hint?: string;
}

/** HTTP status by error code; other codes use their last segment, or else 500. */
const BY_CODE: Record<string, number> = {
  "auth.missing_token": 401,
  "auth.bad_token": 401,
  "auth.desktop": 401,
  "api.version": 400,
  "request.key_reused": 409,
  "auth.too_many_failures": 429,
  "task.busy": 429,
  "auth.bad_host": 403,
  "auth.bad_origin": 403,
  "path.outside_workspace": 403,
  "ask.changed": 409,
  "live.off": 403,
  "policy.blocked": 403,
  "credential.denied": 403,
  "credential.not_granted": 403,
  "route.not_found": 404,
  "route.method_not_allowed": 405,
  "release.frozen": 409,
  "release.revoked": 409,
  "release.rollback": 409,
  "release.keys.missing": 412,
  "release.mismatch": 412,
  "release.busy": 503,
  "live.refused": 409,
  "repo.below": 409,
  "repo.too_many": 409,
  "repo.would_overwrite": 409,
  "repo.none": 404,
  "repo.no_state": 404,
  "repo.busy": 409,
  "repo.changed": 409,
  "repo.no_change": 400,
  "repo.overlap": 409,
  "repo.diverged": 409,
  "project.invalid": 400,
  "project.required": 403,
  "project.forbidden": 403,
  "project.unapproved": 409,
  "repo.refused": 409,
  "repo.moved": 409,
  "repo.too_large": 413,
  "repo.branch_invalid": 400,
  "repo.branch_moved": 409,
  "repo.branch_busy": 409,
  "repo.guest_failed": 502,
  "session.in_use": 409,
  "session.not_sent": 409,
  "vm.wrong_state": 409,
  "vm.held": 409,
  "response.none": 409,
  "response.corp": 403,
  "detection.corp": 403,
  "vm.suspended": 409,
  "vm.host_differs": 409,
  "vm.name_taken": 409,
  "vm.limit": 409,
  "vm.too_large": 400,
  "host.no_service": 400,
  "disk.shrinks": 400,
  "template.off": 409,
  "vm.not_supported": 409,
  "credential.limit": 409,
  "credential.not_active": 409,
  "profile.incompatible": 409,
  "assets.incompatible": 409,
  "assets.downgrade": 409,
  "update.source.not_found": 404,
  "manifest.mismatch": 412,
  "manifest.url.insecure": 400,
  "assets.too_large": 413,
  "assets.mismatch": 412,
  "assets.missing": 412,
  "image.not_found": 404,
  "image.shared": 409,
  "image.missing": 412,
  "image.no_undo": 409,
  "image.not_compared": 409,
  "image.mismatch": 412,
  "toml.not_a_file": 400,
  "toml.unreadable": 400,
  "request.too_large": 413,
  "toml.too_large": 413,
  "request.media_type": 415,
  "request.malformed": 422,
  "request.unknown_field": 422,
  "settings.corp_locked": 423,
  "corp.closed": 423,
  "corp.version": 409,
  "corp.hold": 403,
  "corp.retention": 403,
  "corp.profile": 403,
  "corp.image": 403,
  "corp.image_signature": 403,
  "environment.signature": 403,
  "environment.busy": 409,
  "environment.no_layer": 412,
  "environment.not_found": 404,
  "environment.in_use": 409,
  "environment.reference.invalid": 400,
  "port.limit": 409,
  "port.reserved": 409,
  "job.ended": 409,
  "job.no_terminal": 409,
  "detection.limit": 409,
  "detection.pin_mismatch": 412,
  "detection.revoked": 409,
  "detection.too_large": 413,
  "disk.full": 500,
  "file.denied": 500,
  "file.invalid_path": 400,
  "snapshot.limit": 409,
  "snapshot.too_large": 413,
  "snapshot.busy": 503,
  "vm.boot_failed": 500,
  "network.proxy.failed": 502,
  "guest.failed": 502,
  "mcp.channel_closed": 502,
  "mcp.failed": 502,
  "mcp.login.failed": 502,
  "mcp.env_refused": 403,
  "mcp.login.forbidden": 403,
  "mcp.login.limit": 409,
  "mcp.pin.changed": 409,
  "mcp.pins.busy": 503,
  "mcp.too_large": 413,
  "mcp.unavailable": 502,
  "mcp.tool.held": 403,
  "process.gone": 502,
  "process.bad_reply": 502,
  "service.unreachable": 502,
  "service.gone": 502,
  "upstream.failed": 502,
  "vm.busy": 503,
  "vm.unlanded": 409,
  "vm.paused": 503,
  "net.closed": 503,
  "ca.busy": 503,
  "ledger.unavailable": 503,
  "budget.unavailable": 503,
  "ledger.collector.unavailable": 502,
  "bundle.refused": 409,
  "bundle.damaged": 412,
  "bundle.busy": 503,
  "fleet.hunt.busy": 503,
  "fleet.machine.unknown": 403,
  "fleet.machine.name": 409,
  "fleet.machine.ended": 403,
  "fleet.home.invalid": 403,
  "fleet.enrolment.missing": 409,
  "fleet.enrolment.invalid": 409,
  "fleet.lag": 409,
  "fleet.token.invalid": 403,
  "fleet.upload.unsigned": 403,
  "fleet.busy": 429,
  "fleet.store.unavailable": 503,
  "fleet.unavailable": 502,
  "fleet.refused": 502,
  "fleet.denied": 502,
  "fleet.reader.denied": 403,
  "fleet.login.failed": 403,
  "fleet.forked": 409,
  "fleet.engine.missing": 412,
  "settings.busy": 503,
  "credential.busy": 503,
  "exec.timeout": 504,
  "vm.boot_timeout": 504,
};

const BY_LAST_SEGMENT: Record<string, number> = { not_found: 404, invalid: 400, conflict: 409, timeout: 504 };

/** HTTP status for an error code. */
export function statusOf(code: string): number {
  return BY_CODE[code] ?? BY_LAST_SEGMENT[code.slice(code.lastIndexOf(".") + 1)] ?? 500;
}

/** JSON body for `error`; the cause stays on the host. */
export function errorBody(error: SbxError): ErrorBody {
  return { error: error.message, code: error.code, ...(error.hint && { hint: error.hint }) };
}

/** Advice for a guest that cannot help itself. */
export const ASK_USER = "ask your user";

/** Codes whose message and hint are about the guest's own bytes. */
const OPEN =
  /^(request|upstream)\.|^sign\.invalid$|^dns\.(not_found|upstream)$|^mcp\.(arguments\.invalid|channel_closed)$/;
/** Codes whose message is about the guest's request; their hints are for people on the host. */
const MESSAGE_ONLY = /^(policy|snapshot)\.|^(credential\.denied|net\.closed)$|^mcp\.(?!unavailable$|pins\.)/;
/** Words for the other codes, which are about the host: its files, stores and programs. */
const WORDS: Record<string, string> = {
  "sign.failed": "the key of the host did not sign this",
  "disk.full": "the disk of the host has no room for this",
  "ledger.unavailable": "sbx cannot record this now, so it does not happen",
};

/** The body of an error for a guest, without anything of the host. */
export function guestErrorBody(error: SbxError): ErrorBody {
  const { code, message } = error;
  if (OPEN.test(code)) return errorBody(error);
  const text = MESSAGE_ONLY.test(code) ? message : WORDS[code] ?? "sbx cannot do this now";
  return { error: text, code, hint: ASK_USER };
}
