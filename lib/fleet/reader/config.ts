/** `reader.toml` of a store: the provider of accounts, and who may ask what about which teams. */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { checkToml, readToml } from "../../base/toml/mod.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";

/** An account at the provider. */
export interface Account {
  /** `sub` at the provider */
  subject: string;
  /** shown to the person */
  name?: string;
  groups: readonly string[];
}

const word = z.string().min(1).max(256);

/** True for http:// to this machine, which tests and a proxy beside the service use. */
export function isLoopback(url: URL): boolean {
  return url.protocol === "http:" && isLoopbackHost(url.hostname);
}

const Address = z.url().max(2048).refine(
  (text) => URL.canParse(text) && (new URL(text).protocol === "https:" || isLoopback(new URL(text))),
  "must be https://, or http:// to this machine",
);

const Grant = z.strictObject({
  /** accounts, by their groups or subjects at the provider */
  groups: z.array(word).max(1000).default([]),
  subjects: z.array(word).max(1000).default([]),
  /** `analyst` asks questions; `auditor` reads who asked what */
  role: z.enum(["analyst", "auditor"]),
  /** teams that an analyst asks about; `*`: all machines */
  teams: z.array(word).max(1000).default([]),
  /** names of questions; absent: all */
  questions: z.array(word).max(100).optional(),
}).refine(({ groups, subjects }) => groups.length + subjects.length > 0, "names no groups and no subjects")
  .refine(({ role, teams }) => role === "auditor" || teams.length > 0, "names no teams");

export const ReaderFile = z.strictObject({
  oidc: z.strictObject({
    issuer: Address,
    client_id: word,
    /** file with the client's secret, which others cannot read; absent: a public client, with PKCE alone */
    client_secret_file: z.string().max(4096).optional(),
    /** address at which browsers reach the service; its redirect is `/callback` */
    public_url: Address,
    scopes: z.array(word).max(20).default(["openid", "profile"]),
    /** claim with the groups of an account */
    groups_claim: z.string().min(1).max(64).default("groups"),
    /** audience of bearer tokens (RFC 9068); absent: none are taken */
    audience: word.optional(),
  }),
  grant: z.array(Grant).max(1000),
});
export type ReaderFile = z.infer<typeof ReaderFile>;

/** Reads the file of a store. @throws {SbxError} `fleet.reader.invalid` */
export async function readReaderFile(dir: string): Promise<ReaderFile> {
  const path = join(dir, "reader.toml");
  const document = await readToml(path).catch((cause) => {
    throw new SbxError("fleet.reader.invalid", `${path} cannot be read`, {
      cause,
      hint: 'docs/guides/fleet.md, "Who may read", has an example',
    });
  });
  return checkToml(document, ReaderFile, "fleet.reader.invalid");
}

export interface Rights {
  isAuditor: boolean;
  /** teams that the account may ask a question about; `*`: all */
  teamsFor(question: string): ReadonlySet<string>;
}

/** Rights of an account; `undefined`: no grant names it. */
export function rightsOf(
  { grant }: Pick<ReaderFile, "grant">,
  { subject, groups }: Account,
): Rights | undefined {
  const own = grant.filter((each) =>
    each.subjects.includes(subject) || each.groups.some((group) => groups.includes(group))
  );
  if (own.length === 0) return undefined;
  return {
    isAuditor: own.some(({ role }) => role === "auditor"),
    teamsFor: (question) =>
      new Set(
        own.filter(({ role, questions }) => role === "analyst" && (questions?.includes(question) ?? true))
          .flatMap(({ teams }) => teams),
      ),
  };
}

/** Most bytes of a secret. */
const SECRET_MAX = 4096;

/**
 * Reads the secret of the client.
 * @throws {SbxError} `fleet.reader.invalid`: others can read the file, or it is missing
 */
export async function readClientSecret(path: string): Promise<string> {
  const info = await Deno.stat(path).catch((cause) => {
    throw new SbxError("fleet.reader.invalid", `the client's secret ${path} cannot be read`, { cause });
  });
  if (!info.isFile || info.size > SECRET_MAX || (info.mode ?? 0) & 0o077) {
    throw new SbxError(
      "fleet.reader.invalid",
      `others can read the client's secret ${path}, or it is not a secret`,
      {
        hint: `chmod 600 ${path}`,
      },
    );
  }
  return (await Deno.readTextFile(path)).trim();
}
