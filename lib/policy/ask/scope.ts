/**
 * Lasting answers: the events that one covers, exactly as its question names them, and the rules made of
 * answers (docs/design/contracts/05-policy.md §5, "Asks").
 */
import { blake3 } from "../../base/hash/mod.ts";
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import { type DecidingRule, signLine, updatesLine } from "../decision/mod.ts";
import { COVERS_MAX, PATHS_MAX } from "./limit.ts";
import type { Ask, AskAnswer, AskReach } from "./schema.ts";
import { quote } from "../engine/field.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Rule } from "../engine/rule.ts";
import { PRIORITY_DEFAULT } from "../engine/rule_term.ts";
import type { RuleTable } from "../author/schema.ts";

/** Scope of an answer for minutes or the session. */
export interface AskScope {
  /** hash that is equal for the events that one answer covers: the hashed text may hold secrets */
  key: string;
  /**
   * the scope on one line, shown whole: everything in the key that a guest chose, and everything that may
   * differ
   */
  covers: string;
  /** wider scopes that an answer can have */
  wide: Partial<Record<AskReach, Reach>>;
  /** a request's path and its folders, longest first: any of them can be the path of an answer */
  paths: { path: string; key: string }[];
}

/** A wider scope: its key, and its reach in one line. */
interface Reach {
  key: string;
  covers: string;
}

/** Record types of one lookup of a host's addresses: a person answers both as one question. */
const ADDRESS_TYPES = ["A", "AAAA"];

const isAddressType = (qtype: string | undefined) => qtype !== undefined && ADDRESS_TYPES.includes(qtype);

/**
 * Scope of an answer to a rule's ask about an event; `undefined` where its text would be too long to be
 * read: that ask can be answered once only. Events that differ only in a secret have the same text and
 * different keys.
 *
 * @param shown the event with refs in place of secrets
 */
export function scopeOf(
  event: Event,
  { layer, id, reason, name }: DecidingRule,
  shown = event,
): AskScope | undefined {
  const { event_type } = event.common;
  const family = familyOf(event_type);
  const covers = WORDS[family]?.(shown);
  if (covers === undefined || covers.length > COVERS_MAX) return undefined;
  const fields = COVERED[family].map((path) => valueAt(event, path))
    .map((value) => family === "dns" && ADDRESS_TYPES.includes(value as string) ? ADDRESS_TYPES : value);
  const rule = [layer, id, reason ?? name];
  const keyOf = (parts: unknown[]) => blake3(JSON.stringify([...rule, ...parts]));
  const [host, origin, shownOrigin] = [hostOf(event), originOf(event), originOf(shown)];
  const paths = pathsOf(event, shown).map(({ path, own }) => ({ path, key: keyOf(["path", origin, own]) }));
  const method = event.http?.request?.method;
  const wholeHost: Reach | undefined = host
    ? {
      key: keyOf(["host", host]),
      covers: `every request to ${hostOf(shown)}, and lookups of its addresses`,
    }
    : undefined;
  if (asksForHost(event)) {
    if (!wholeHost || wholeHost.covers.length > COVERS_MAX) return undefined;
    return { ...wholeHost, wide: { host: wholeHost }, paths: [] };
  }
  const wide: AskScope["wide"] = {
    ...wholeHost && { host: wholeHost },
    ...origin && {
      method: {
        key: keyOf(["method", origin, method]),
        covers: `every ${shown.http?.request?.method} request to ${shownOrigin}, of any path`,
      },
    },
    ...paths.length > 0 && {
      path: { key: paths[0].key, covers: pathCovers(shown, paths[0].path)! },
    },
  };
  return {
    covers,
    key: keyOf([event_type, ...fields, ...gitOf(event), ...sshOf(event)]),
    wide: Object.fromEntries(Object.entries(wide).filter(([, each]) => each.covers.length <= COVERS_MAX)),
    paths,
  };
}

/** Label of an event about which a program asks for access to its whole host. */
export const HOST_ACCESS = "request_access_host";

/** True for a question about a whole host, which any answer covers. */
export function asksForHost({ common: { labels } }: Event): boolean {
  return labels?.[HOST_ACCESS] === "true";
}

/** Scheme, host and port of a request; `undefined` for a tunnel, and for an event without a request. */
function originOf({ http }: Event): string | undefined {
  if (!http || http.request.ssh || http.request.method === "CONNECT" || !http.request.host) return undefined;
  const { scheme, host, port } = http.request;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** An answer for a path of a request, in words. */
function pathCovers(shown: Event, path: string): string | undefined {
  const origin = originOf(shown);
  return origin && `every request to ${origin}${path}${path === "/" ? "" : " and below"}, of any method`;
}

/**
 * The path of a request and its folders, longest first: as people are shown it, and its own. A path that is
 * not absolute, such as that of `OPTIONS *`, has none.
 */
function pathsOf(event: Event, shown: Event): { path: string; own: string }[] {
  if (originOf(event) === undefined) return [];
  const [own, seen] = [event, shown].map(({ http }) => (http?.request.path ?? "").split("/"));
  if (own[0] !== "" || own.length !== seen.length || own.length < 2 || own.length > PATHS_MAX) return [];
  const upTo = (segments: string[], end: number) => segments.slice(0, end).join("/") || "/";
  // The slash at the end of a path is no segment: "/a/" is below "/a", and the same as it.
  const last = own.at(-1) === "" ? own.length - 1 : own.length;
  return Array.from({ length: last }, (_, at) => last - at)
    .map((end) => ({ path: upTo(seen, end), own: upTo(own, end) }));
}

/** Host of a request, or of a lookup of addresses; over SSH each kind of session is a question of its own. */
function hostOf({ http, dns }: Event): string | undefined {
  if (dns) return isAddressType(dns.request.qtype) ? dns.request.qname : undefined;
  return http && !http.request.ssh ? http.request.host || undefined : undefined;
}

/**
 * True for an event that waits for the answer to another ask of its scope: a
 * resolver sends both, again and again.
 */
export function joins({ dns }: Event): boolean {
  return isAddressType(dns?.request.qtype);
}

/**
 * Fields whose values an answer covers, by family; of a push, its service, refs and
 * kinds too; over SSH, what runs.
 */
const COVERED: Readonly<Record<string, readonly string[]>> = {
  http: ["method", "scheme", "host", "port", "path"].map((name) => `http.request.${name}`),
  dns: ["dns.request.qtype", "dns.request.qname"],
  db: ["system", "host", "port", "user", "name", "kind", "command", "statement"].map((name) =>
    `db.request.${name}`
  ),
  // These bytes and no others.
  sign: ["format", "signer", "digest"].map((name) => `sign.request.${name}`),
  mcp: ["method", "server_name", "tool_name", "namespaced_tool_name"].map((name) => `mcp.request.${name}`),
  model: ["provider", "api_family", "model", "operation"].map((name) => `model.request.${name}`),
  file: ["file.activity.operation", "file.activity.path"],
  process: ["operation", "executable", "command", "argv", "cwd"].map((name) => `process.activity.${name}`),
};

/** Scope of an event in words; `undefined` for an event without its family's object. */
const WORDS: Record<string, (event: Event) => string | undefined> = {
  http: ({ http }) => {
    const { method, scheme, host, port, path, git, ssh } = http?.request ?? {};
    if (!host) return undefined;
    const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    const refs = git?.updates?.length ? `, which does ${updatesLine(git.updates)}` : "";
    return method === "CONNECT"
      ? ssh
        ? `${ssh.kind}${ssh.command && ` "${ssh.command}"`} at ${scheme}://${ssh.user}@${authority}`
        : `${method} ${scheme}://${authority}`
      : `${method} ${scheme}://${authority}${path}${refs}, with any query, headers and body`;
  },
  dns: ({ dns }) =>
    dns &&
    `${
      isAddressType(dns.request.qtype) ? ADDRESS_TYPES.join(" and ") : dns.request.qtype
    } ${dns.request.qname}`,
  db: ({ db }) => {
    if (!db) return undefined;
    const { system, host, port, user, name, kind, statement } = db.request;
    const account = [user, name].filter(Boolean).join(" in ");
    return `${kind} at ${system}://${host}:${port}${
      account && ` as ${account}`
    }: ${statement}, with any values`;
  },
  sign: ({ sign }) => sign && `${signLine(sign.request)}, these ${sign.request.bytes} bytes only`,
  mcp: ({ mcp }) => {
    if (!mcp) return undefined;
    const { method, server_name, namespaced_tool_name } = mcp.request;
    const what = namespaced_tool_name || server_name;
    return `${method}${what && ` ${what}`}, with any arguments`;
  },
  model: ({ model }) => {
    if (!model) return undefined;
    const { provider, model: name, operation } = model.request;
    return `${provider} ${name} ${operation}, with any content`;
  },
  file: ({ file }) => file && `${file.activity.operation} ${file.activity.path}, with any content`,
  process: ({ process }) => {
    if (!process) return undefined;
    const { operation, command, cwd } = process.activity;
    return `${operation} ${command} in ${cwd}`;
  },
};

/** The changes of a push, in the key of its scope. */
function gitOf({ http }: Event): unknown[] {
  const git = http?.request.git;
  return git ? [git.service, git.updates?.map(({ kind, ref }) => [kind, ref])] : [];
}

/** What runs over SSH, in the key of its scope. */
function sshOf({ http }: Event): unknown[] {
  const ssh = http?.request.ssh;
  return ssh ? [ssh.kind, ssh.user, ssh.command] : [];
}

/** CEL for the events that an answer covers. @param of its wider reach @param path of an answer for a path */
export function coveredMatch(event: Event, of?: AskReach, path?: string): string {
  const { event_type } = event.common;
  if (of === "path" || of === "method") return requestMatch(event, of, path);
  const host = of || asksForHost(event) ? hostOf(event) : undefined;
  if (host !== undefined) {
    const name = quote(host);
    return `(http.request.host == ${name} && !has(http.request.ssh)) || ` +
      `(dns.request.qname == ${name} && dns.request.qtype in ${literalOf(ADDRESS_TYPES)})`;
  }
  const tests = COVERED[familyOf(event_type)].map((path) => testOf(path, valueAt(event, path)));
  return [`common.event_type == ${quote(event_type)}`, ...tests, ...gitTests(event), ...sshTests(event)]
    .join(" && ");
}

/** CEL for the requests of an answer for a path or a method: of this scheme, host and port only. */
function requestMatch(event: Event, of: "path" | "method", path?: string): string {
  const origin = ["scheme", "host", "port"].map((name) => `http.request.${name}`);
  const tests = origin.map((each) => testOf(each, valueAt(event, each)));
  const common = [
    `common.event_type == ${quote(event.common.event_type)}`,
    "!has(http.request.ssh)",
    ...tests,
  ];
  if (of === "method") {
    return [...common, testOf("http.request.method", valueAt(event, "http.request.method"))].join(" && ");
  }
  const folders = pathsOf(event, event).map(({ own }) => own);
  const folder = path === undefined ? folders[0] : folders.find((each) => each === path);
  if (folder === undefined) throw notBelow(path ?? "");
  const notTunnel = 'http.request.method != "CONNECT"';
  if (folder === "/") return [...common, notTunnel].join(" && ");
  const below = `(http.request.path == ${quote(folder)} || http.request.path.startsWith(${
    quote(`${folder}/`)
  }))`;
  return [...common, notTunnel, below].join(" && ");
}

/** The error for an answer whose path is not one of the event's. */
function notBelow(path: string): SbxError {
  return new SbxError("ask.invalid", `the event is not below the path "${path}"`, {
    hint: "name its own path, or one of its folders: sbx asks lists the path",
  });
}

function testOf(path: string, value: unknown): string {
  if (path === "dns.request.qtype" && isAddressType(value as string)) {
    return `${path} in ${literalOf(ADDRESS_TYPES)}`;
  }
  return value === undefined ? `!has(${path})` : `${path} == ${literalOf(value)}`;
}

function gitTests({ http }: Event): string[] {
  const git = http?.request.git;
  if (!git) return [];
  const refs = git.updates.map(({ kind, ref }) =>
    `update.kind == ${quote(kind)} && update.ref == ${quote(ref)}`
  );
  return [
    `http.request.git.service == ${quote(git.service)}`,
    `http.request.git.updates.all(update, ${refs.length ? refs.join(" || ") : "false"})`,
  ];
}

function sshTests({ http }: Event): string[] {
  const ssh = http?.request.ssh;
  if (!ssh) return [];
  return (["kind", "user", "command"] as const).map((name) =>
    `http.request.ssh.${name} == ${quote(ssh[name])}`
  );
}

function literalOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literalOf).join(", ")}]`;
  return typeof value === "string" ? quote(value) : String(value);
}

/**
 * The events that a lasting answer covers, as CEL and in words.
 *
 * @throws {SbxError} `ask.invalid`: the event has no such scope
 */
export function coveredBy(
  event: Event,
  asking: DecidingRule,
  of?: AskReach,
  path?: string,
): { match: string; covers: string } {
  const scope = scopeOf(event, asking);
  if (!scope) {
    throw new SbxError("ask.invalid", "the event is too long for a rule that covers events like it", {
      hint: "write a rule yourself: docs/guides/policy.md",
    });
  }
  if (of && !scope.wide[of]) throw noReach(of);
  const covers = of === undefined
    ? scope.covers
    : of === "path" && path !== undefined
    ? pathCovers(event, path)!
    : scope.wide[of]!.covers;
  return { match: coveredMatch(event, of, path), covers };
}

/** The error for an answer that is for a host, path or method where the event has none. */
function noReach(of: AskReach, what = "the event"): SbxError {
  const message = of === "host" ? `${what} is of no host` : `${what} is not a request with a ${of}`;
  return new SbxError("ask.invalid", message, { hint: `leave out --${of}` });
}

/** A rule to save in a profile. */
export interface SavedRule {
  id: string;
  rule: RuleTable;
}

/**
 * The rule for events that an answer to the ask about `event` covers: an allow before the rule that asks, or
 * that rule without these events, where an allow of the same priority would lose.
 *
 * @param event as recorded
 * @param of the answer's wider reach
 * @param path of an answer for a path
 * @throws {SbxError} `policy.blocked`: corp asks; `ask.invalid`: the event has no such scope
 */
export function savedRule(event: Event, asking: Rule, of?: AskReach, path?: string): SavedRule {
  if (asking.layer === "corp") {
    throw new SbxError("policy.blocked", `the corp rule "${asking.id}" asks each time`, {
      hint: "only your administrator can change corp rules",
    });
  }
  const { match, covers } = coveredBy(event, asking, of, path);
  if (asking.layer === "profile" && asking.priority <= PRIORITY_DEFAULT.profile) {
    const { id, layer: _, file: __, line: ___, match_line: ____, ...rule } = asking;
    return { id, rule: { ...rule, match: `(${asking.match}) && !(${match})` } };
  }
  const priority = asking.layer === "profile" ? { priority: asking.priority - 1 } : {};
  const reason = `answered once, instead of rule "${asking.id}"`;
  const id = `saved-${event.common.event_id}`;
  return {
    id,
    rule: {
      name: covers.slice(0, 200),
      action: "allow",
      match,
      enabled: true,
      ...priority,
      reason,
      ...(asking.protocol !== undefined && { protocol: asking.protocol }),
    },
  };
}

/** Keys of the answers that may cover an event. */
export interface ReachKeys {
  /** absent: an answer covers this event only */
  key?: string;
  /** key of the event's whole host; absent: an answer cannot be for it */
  host?: string;
  /** key of the request's method at its scheme, host and port */
  method?: string;
  /** keys of the request's path and its folders */
  paths?: { path: string; key: string }[];
}

/** Keys of every answer that an event of these scopes is covered by, the narrowest first. */
export function keysOf({ key, host, method, paths = [] }: ReachKeys): string[] {
  return [key, ...paths.map((each) => each.key), method, host].filter((each) => each !== undefined);
}

/**
 * Key of the events that an answer covers; of an answer once, the ask's own.
 *
 * @throws {SbxError} `ask.invalid`: the event has no such scope
 */
export function reachedBy(
  { ask, key, host, method, paths }: ReachKeys & { ask: Pick<Ask, "ask_id"> },
  { of, path, scope }: AskAnswer,
): string | undefined {
  if (path !== undefined && of !== "path") {
    throw new SbxError("ask.invalid", `${ask.ask_id}: an answer with a path is for a path`, {
      hint: "sbx allow ASK --path PATH",
    });
  }
  if (of === undefined) return key;
  if (scope === "once") {
    const hint = `sbx allow ASK --${of}${of === "path" ? " PATH" : ""}`;
    throw new SbxError(
      "ask.invalid",
      `${ask.ask_id}: an answer for the ${of} is for a time, or the session`,
      {
        hint,
      },
    );
  }
  const reached = of === "host" ? host : of === "method" ? method : paths?.[0]?.key;
  if (reached === undefined) throw noReach(of, ask.ask_id);
  if (path === undefined) return reached;
  const folder = paths!.find((each) => each.path === path);
  if (!folder) throw notBelow(path);
  return folder.key;
}
