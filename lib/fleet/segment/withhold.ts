/** Keeps bodies on the machine, unless corp allows their family and host. */
import { canonicalJson } from "../../base/json/mod.ts";
import { isObject } from "../../base/object/mod.ts";

/** Bodies that may leave the machine. */
export interface BodyGrant {
  family: string;
  /** hosts, or `*.` and a domain; absent: all */
  hosts?: readonly string[];
}

type Json = Record<string, unknown>;

/** Fields with contents of requests and responses, by family; a body keeps its size and its type. */
const CONTENTS: Record<string, readonly string[]> = {
  http: ["request.body", "response.body"],
  model: ["request.body", "response.tool_calls"],
  mcp: ["request.arguments", "response.content"],
};
/**
 * Fields that hold contents, in canonical JSON. Rows without any are sent as stored: parsing each one costs
 * more than all other work of shipping.
 */
const CONTENT = /"(?:tool_calls|arguments|content)":|"body":(?!\{"state":"missing","truncated":false\})/;

/**
 * Searches lines for one with contents.
 *
 * @param text also bytes as Latin-1
 * @returns its place; -1: not found
 */
export function findContents(text: string, from = 0): number {
  const pattern = new RegExp(CONTENT, "g");
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** @returns the text of an event without its bodies; unchanged if it has none or they may leave */
export function withholdFromEvent(text: string, grants: readonly BodyGrant[]): string {
  if (!CONTENT.test(text)) return text;
  const event = JSON.parse(text) as Json;
  const family = familyOf(event);
  const part = event[family];
  if (!isObject(part) || isGranted(family, hostOf(part as Json), grants)) return text;
  return withhold(part as Json, family, "") ? canonicalJson(event) : text;
}

/** @param event the event that ended; `undefined`: unknown, so that no body leaves */
export function withholdFromOutcome(
  text: string,
  event: { family: string; host?: string } | undefined,
  grants: readonly BodyGrant[],
): string {
  if (!CONTENT.test(text)) return text;
  if (event && isGranted(event.family, event.host, grants)) return text;
  const outcome = JSON.parse(text) as Json;
  if (!isObject(outcome.response)) return text;
  // Without the event the family is unknown: contents of all of them are taken out.
  let changed = false;
  for (const family of event ? [event.family] : Object.keys(CONTENTS)) {
    changed = withhold(outcome, family, "response.") || changed;
  }
  return changed ? canonicalJson(outcome) : text;
}

/** Family and host of an event, which decide on the bodies of its end. */
export function originOf(text: string): { event_id: string; family: string; host?: string } {
  const event = JSON.parse(text) as Json;
  const family = familyOf(event);
  const host = isObject(event[family]) ? hostOf(event[family] as Json) : undefined;
  return {
    event_id: String((event.common as Json | undefined)?.event_id),
    family,
    ...(host !== undefined && { host }),
  };
}

function familyOf(event: Json): string {
  return String((event.common as Json | undefined)?.event_type ?? "").split(".")[0];
}

function hostOf(part: Json): string | undefined {
  const request = part.request as Json | undefined;
  const host = request?.host ?? request?.server_name ?? request?.provider;
  return typeof host === "string" ? host : undefined;
}

function isGranted(family: string, host: string | undefined, grants: readonly BodyGrant[]): boolean {
  return grants.some((grant) =>
    grant.family === family && (grant.hosts === undefined || grant.hosts.some((name) => covers(name, host)))
  );
}

function covers(name: string, host = ""): boolean {
  return name.startsWith("*.") ? host.endsWith(name.slice(1)) : name === host;
}

/** Removes the contents of a family from an object. @returns whether there were any */
function withhold(part: Json, family: string, prefix: string): boolean {
  let changed = false;
  for (const path of CONTENTS[family] ?? []) {
    if (!path.startsWith(prefix)) continue;
    const [side, name] = path.split(".");
    const holder = part[side];
    if (!isObject(holder) || !Object.hasOwn(holder, name)) continue;
    const before = (holder as Json)[name];
    if (isObject(before) && (before as Json).state === "missing") continue;
    (holder as Json)[name] = replacementOf(name, before);
    changed = true;
  }
  return changed;
}

/** What stands for contents that stayed, in the shape of the field. */
function replacementOf(name: string, value: unknown): unknown {
  if (name !== "body") return name === "arguments" ? {} : [];
  const { content_type, size, truncated } = isObject(value) ? value as Json : {};
  return {
    state: "redacted",
    redaction_reason: "fleet.withheld",
    ...(content_type !== undefined && { content_type }),
    ...(size !== undefined && { size }),
    ...(truncated !== undefined && { truncated }),
  };
}
