/** `[[sinks]]` of corp.toml: collectors that get every event (docs/guides/siem.md). */
import { z } from "zod";
import { isLoopbackHost } from "../../base/url/mod.ts";

/** Most sinks of one file (docs/design/contracts/14-limits.md §14). */
export const SINKS_MAX = 16;

const FAMILIES = ["http", "dns", "db", "sign", "mcp", "model", "file", "process", "credential"] as const;

/** Protocols of an address, by form. */
const PROTOCOLS = {
  syslog: ["tls:"],
  hec: ["https:", "http:"],
  elastic: ["https:", "http:"],
  otlp: ["https:", "http:"],
  file: ["file:"],
};

/** One sink. */
export const FeedSink = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]{1,32}$/, "must be 1 to 32 of a-z 0-9 -"),
  form: z.enum(["syslog", "hec", "elastic", "otlp", "file"]),
  url: z.string(),
  /** authorities in PEM that a syslog receiver may have its certificate from; absent: the machine's */
  ca_file: z.string().regex(/^\//, "must be an absolute path").optional(),
  credential_ref: z.string().regex(
    /^credential:blake3:[0-9a-f]{64}$/,
    'must be "credential:blake3:" and 64 hex characters, never the secret',
  ).optional(),
  /** signals for a collector of the form otlp; absent: both */
  signals: z.array(z.enum(["logs", "traces"])).min(1).optional(),
  /** user of basic authentication; absent: a token */
  user: z.string().regex(/^[^:\p{Cc}]{1,256}$/u, "must be a user name without a colon").optional(),
  /** families that it gets; absent: all */
  families: z.array(z.enum(FAMILIES)).min(1).optional(),
  /** final decisions that it gets; absent: all, also events that nothing decided */
  decisions: z.array(z.enum(["allow", "ask", "block"])).min(1).optional(),
  /** fields, such as "http.path" or "process.command", that are removed or replaced by their SHA-256 */
  redact: z.record(
    z.string().regex(
      new RegExp(`^(${FAMILIES.join("|")})\\.[a-z_]+$`),
      "must be a family and a field: http.path",
    ),
    z.enum(["remove", "hash"]),
  ).default({}),
}).superRefine(({ form, url, ca_file, signals, credential_ref, user }, context) => {
  const refuse = (path: string, message: string) =>
    context.addIssue({ code: "custom", path: [path], message });
  const parsed = URL.parse(url);
  const wanted = PROTOCOLS[form];
  if (!parsed || !wanted.includes(parsed.protocol)) {
    return refuse(
      "url",
      `must be a URL with ${wanted.join(" or ").replaceAll(":", "://")} for the form ${form}`,
    );
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    refuse("url", "must be a URL without a user, a password or a query; credential_ref names a credential");
  }
  if (parsed.protocol === "http:" && !isLoopbackHost(parsed.hostname)) {
    refuse("url", "would send events without TLS; use https://");
  }
  if (form !== "syslog" && ca_file !== undefined) {
    refuse("ca_file", "is for the form syslog; the setting of the host's network has authorities for https");
  }
  if (form !== "otlp" && signals !== undefined) refuse("signals", "is for the form otlp");
  const hasToken = form === "hec" || form === "elastic" || form === "otlp";
  if (!hasToken && credential_ref !== undefined) {
    refuse("credential_ref", `means nothing for the form ${form}`);
  }
  if (credential_ref === undefined && user !== undefined) refuse("user", "needs a credential_ref");
});
export type FeedSink = z.output<typeof FeedSink>;

/** All sinks of a file. */
export const FeedSinks = z.array(FeedSink).max(SINKS_MAX).superRefine((sinks, context) => {
  for (const [at, { id }] of sinks.entries()) {
    if (sinks.findIndex((other) => other.id === id) === at) continue;
    context.addIssue({ code: "custom", path: [at, "id"], message: `"${id}" names another sink already` });
  }
});
