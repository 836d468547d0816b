/**
 * Providers that people, profiles and corp add (docs/design/contracts/09-credentials.md §9,
 * "Added providers"). Imported past mod.ts by readers of files and requests: a VM's process
 * reads contracts that were checked.
 */
import { z } from "zod";
import { claimantOf } from "./catalogue.ts";
import { RESOURCES } from "./cloud/terms.ts";
import { didYouMean } from "../base/text/mod.ts";
import { LABEL_MAX } from "./entry.ts";
import { DEFINITIONS, isProvider, PROVIDER_ID, PROVIDERS } from "./provider.ts";

/** Most hosts, places of one kind and variables of an added provider. */
const LIST_MAX = 16;
/** Beginning of the ids that only corp gives, so that a profile can grant them unseen. */
export const CORP_PREFIX = "corp-";

const NAMES = new Set(DEFINITIONS.flatMap(({ id, aliases = [] }) => [id, ...aliases]));

/** Headers that direct or frame a request. */
const NO_PLACE =
  /^(?:host|cookie|connection|te|trailer|upgrade|expect|range|via|content-.*|transfer-.*|proxy-.*|sec-.*)$/;
/** Variables that programs are found, linked or configured by. */
const NO_VARIABLE =
  /^(?:PATH|HOME|USER|SHELL|IFS|ENV|BASH_ENV|PWD|LD_.*|GIT_.*|SBX_.*|.*_PROXY|NODE_OPTIONS|DENO_.*)$/;

/** An id that no built-in provider has. */
export const CustomId = z.string().regex(
  /^[a-z][a-z0-9-]{1,31}$/,
  "must be 2 to 32 of a-z 0-9 - and begin with a letter",
).refine((id) => !NAMES.has(id), "is a provider that sbx knows: sbx credentials providers");

/** A name of at least two labels, or `*.` before one. */
const Host = z.string().max(253).regex(
  /^(?:(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+|\*\.(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+)[a-z][a-z0-9-]*[a-z0-9]$/,
  "must be a lower-case name such as api.example.com or *.example.com",
).refine((host) => !/^\*\.[^.]+$/.test(host), "must name a domain behind *.").superRefine((host, context) => {
  const claimant = claimantOf(host, DEFINITIONS);
  if (!claimant) return;
  const owner = claimant.hosts.length > 0 ? claimant.title : claimant.id;
  context.addIssue({ code: "custom", message: `${host} is a host of ${owner}, or of its customers` });
});

const list = <S extends z.ZodType>(item: S) => z.array(item).max(LIST_MAX);

/**
 * True for a beginning by which keys of a built-in provider are known: they
 * would be taken for the added one's.
 */
function isTaken(text: string): boolean {
  return DEFINITIONS.some(({ keys = [] }) =>
    keys.some(({ prefix, loose }) => !loose && text.startsWith(prefix) || text === prefix)
  );
}

/** Hosts, places and variables of one added provider, as in providers.json. */
export const CustomProvider = z.strictObject({
  hosts: list(Host).min(1),
  headers: list(
    z.string().regex(
      /^[a-z][a-z0-9-]{0,63}(?:: [a-z][a-z0-9-]{0,31})?$/,
      'must be a header in lower case, such as "x-api-key" or "authorization: bearer"',
    ).refine((place) => !NO_PLACE.test(place.split(":")[0]), "no key travels in this header"),
  ).optional(),
  basic: list(z.enum(["user", "password"])).optional(),
  queries: list(z.string().regex(/^[A-Za-z][\w.-]{0,63}$/, "must be the name of a parameter")).optional(),
  prefixes: list(
    z.string().regex(
      /^[A-Za-z][A-Za-z0-9]{1,15}[_-](?:[A-Za-z0-9]{1,16}[_-]){0,3}$/,
      'must be a beginning of keys that ends in - or _, such as "acme_" or "sk-acme-"',
    ).refine((prefix) => !isTaken(prefix), "is a beginning of another provider's keys"),
  ).optional(),
  paths: list(
    z.string().regex(
      /^\/(?:[\w.-]+\/)*[\w.-]*\{key\}\/$/,
      "must be the beginning of a path, such as /hooks/{key}/",
    ),
  ).optional(),
  env: list(
    z.string().regex(/^[A-Z][A-Z0-9_]{1,63}$/, "must be a variable such as EXAMPLE_API_KEY").refine(
      (name) => !NO_VARIABLE.test(name),
      "no client reads a key from this variable",
    ),
  ).optional(),
}).refine(
  ({ headers = [], basic = [], queries = [], paths = [] }) =>
    headers.length + basic.length + queries.length + paths.length > 0,
  "needs a place of its keys: headers, basic, queries or paths",
);

/** Id of any provider. */
export const ProviderId = z.string().regex(
  PROVIDER_ID,
  "must be the id of a provider: lower-case letters, digits and -",
);

/** Identities at clouds whose tokens the host obtains; no field is secret. */
export const CloudTerms = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("aws"),
    profile: z.string().max(128).regex(/^[^\s\]\p{Cc}][^\]\p{Cc}]*$/u, "must be the name of a profile")
      .optional()
      .describe("section of the host's own configuration"),
    role_arn: z.string().max(2048).regex(
      /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
      "must be a role such as arn:aws:iam::123456789012:role/agent",
    ).optional(),
    external_id: z.string().regex(/^[\w+=,.@:/-]{2,1224}$/, "must be an external id").optional(),
    region: z.string().max(64).regex(
      /^[a-z]{2}(?:-[a-z]+){1,2}-\d{1,2}$/,
      "must be a region such as eu-west-1",
    )
      .optional(),
  }).refine(
    ({ profile, role_arn, external_id }) =>
      (profile ?? role_arn) !== undefined && (external_id === undefined || role_arn !== undefined),
    "needs a profile or a role, and a role for external_id",
  ),
  z.strictObject({
    kind: z.literal("gcp"),
    from: z.enum(["service_account", "authorized_user", "impersonated_service_account"]),
    email: z.string().max(256).regex(
      /^[^@\s\p{Cc}]+@[a-z0-9.-]+$/u,
      "must be the address of a service account",
    ).optional(),
    project: z.string().max(100).regex(/^[a-z0-9.:-]+$/, "must be the id of a project").optional(),
    scopes: z.array(
      z.string().max(256).regex(
        /^https:\/\/[a-z.]*google[a-z.]*\/[\w./-]*$/,
        "must be the address of a scope",
      ),
    ).min(1).max(LIST_MAX),
  }),
  z.strictObject({
    kind: z.literal("azure"),
    tenant: z.string().max(128).regex(/^[a-z0-9][a-z0-9.-]*$/, "must be the id or domain of a tenant"),
    client_id: z.string().regex(
      /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
      "must be the id of an application",
    ),
    resource: z.string().refine(
      (word) => Object.hasOwn(RESOURCES, word),
      `must be one of ${Object.keys(RESOURCES).join(", ")}`,
    ),
  }),
]);

/** Added providers by their ids. */
export const CustomProviders = z.record(CustomId, CustomProvider);

/** Added providers of one author: corp's ids begin with {@linkcode CORP_PREFIX}, and no others do. */
export const customProvidersOf = (author: "corp" | "profile") =>
  z.record(
    CustomId.refine(
      (id) => id.startsWith(CORP_PREFIX) === (author === "corp"),
      author === "corp"
        ? `must begin with ${CORP_PREFIX}`
        : `begins with ${CORP_PREFIX}, as ids of corp's providers do`,
    ),
    CustomProvider,
  );

/**
 * Reports a provider that a profile or corp names and nothing defines.
 *
 * @param custom the providers that its author adds
 */
export function checkNamed(
  context: z.RefinementCtx,
  path: PropertyKey[],
  id: string,
  custom: Readonly<Record<string, unknown>>,
): void {
  if (isProvider(id) || Object.hasOwn(custom, id) || id.startsWith(CORP_PREFIX)) return;
  const near = didYouMean(id, [...PROVIDERS, ...Object.keys(custom)]);
  const message = `is not a provider${near ? `; ${near}` : ""} (sbx credentials providers lists them)`;
  context.addIssue({ code: "custom", path, message });
}

/** Labels of the only keys of some providers; by their ids. */
export const ProviderLabels = z.record(
  ProviderId,
  list(z.string().min(1).max(LABEL_MAX).regex(/^[^\p{Cc}]*$/u, "must be one line")).min(1),
);

/** Hosts that a provider's keys may go to, of all that it has; by its id. */
export const ProviderHosts = z.record(
  ProviderId,
  list(
    z.string().max(253).regex(/^[a-z0-9*]([a-z0-9.*-]*[a-z0-9])?$/, "must be a lower-case name of a host"),
  ),
);
