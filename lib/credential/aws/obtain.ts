/**
 * Keys of an identity at AWS (docs/design/contracts/09-credentials.md §9, "Clouds"): of a profile of the host's own configuration,
 * with SSO, credential_process and roles, and of a role that such keys take. Amazon's library asks SSO and STS.
 */
import { homedir } from "node:os";
import { dirname } from "node:path";
import type { SbxError } from "../../base/error/mod.ts";
import { accessProblem } from "../../base/home/mod.ts";
import type { AwsTerms } from "../cloud/terms.ts";
import type { Obtained } from "../entry.ts";
import { programError, runProgram } from "../runner.ts";
import { loginFetch } from "../subscription/fetch.ts";
import { awsKeysOf, joinAwsKeys, readProcessKeys } from "./keys.ts";
import { fetchHandler } from "./request_handler.ts";
import { roleKeysOf } from "./role_key.ts";

/** Most profiles that take each other's keys. */
const CHAIN_MAX = 8;
/** Time for which keys without an end are used, in `s`: the file may have other ones then. */
const TTL_S = 900;
/** Life of a role's keys, in `s`: all that a role taken by a role has. */
const ROLE_S = 3600;
const REGION = "us-east-1";
/** Most attempts of one request. */
const ATTEMPTS = 2;
/** Name of the sessions of a role, in the records of its account. */
const SESSION = "sbx";
/** Failures that are named: any other text of a server may hold a key. */
const KNOWN = [
  "AccessDenied",
  "AccessDeniedException",
  "ExpiredToken",
  "ExpiredTokenException",
  "ForbiddenException",
  "IDPCommunicationError",
  "IDPRejectedClaim",
  "InvalidClientTokenId",
  "InvalidGrantException",
  "InvalidIdentityToken",
  "InvalidRequestException",
  "PackedPolicyTooLarge",
  "RegionDisabledException",
  "ResourceNotFoundException",
  "SignatureDoesNotMatch",
  "UnauthorizedClientException",
  "UnauthorizedException",
  "ValidationError",
];

/** Keys as Amazon's library has them. */
interface LibraryKeys {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  expiration?: Date;
}

type Profile = Record<string, string | undefined>;

/** Parts that a chain of profiles shares. */
interface Chain {
  profiles: Record<string, Profile>;
  region?: string;
  handler: ReturnType<typeof fetchHandler>;
}

/**
 * Obtains keys.
 *
 * @param key the secret of the store, where no profile is named
 * @throws {SbxError} `credential.program`: there are no keys, and why
 */
export async function obtainAwsKeys(
  terms: AwsTerms,
  key: string,
  // STS answers in JSON if one asks for it, and Amazon's library reads its XML alone.
  fetch = loginFetch({ accept: "*/*" }),
): Promise<Obtained> {
  const obtained_at = Date.now();
  const { parseKnownFiles } = await import("@smithy/core/config");
  const { profile, role_arn, external_id, region } = terms;
  if (profile !== undefined) await requireOwnConfig();
  const chain: Chain = {
    profiles: profile === undefined
      ? {}
      : await parseKnownFiles({ ignoreCache: true }) as Record<string, Profile>,
    handler: fetchHandler(fetch),
    ...(region !== undefined && { region }),
  };
  const own = profile === undefined ? stored(key) : await keysOfProfile(chain, profile, []);
  const keys = role_arn === undefined
    ? own
    : await takeRole(chain, own, { RoleArn: role_arn, ExternalId: external_id }, {
      region: profile === undefined ? undefined : chain.profiles[profile]?.region,
    });
  const secret = joinAwsKeys({
    id: keys.accessKeyId,
    secret: keys.secretAccessKey,
    ...(keys.sessionToken && { token: keys.sessionToken }),
  });
  if (secret === undefined) throw fail("AWS gave no usable keys");
  const expires_at = keys.expiration?.getTime() ?? obtained_at + TTL_S * 1000;
  if (!(expires_at > Date.now())) throw fail("the keys of AWS have expired", "log in again: aws sso login");
  return { secret, obtained_at, expires_at };
}

/**
 * Requires that no other user can write a profile: it may name a program, which then runs as the service's user.
 *
 * @throws {SbxError} `credential.program`
 */
async function requireOwnConfig(): Promise<void> {
  // As Amazon's library finds them: an empty variable counts for none, and one may begin with the home.
  const home = Deno.env.get("HOME") || homedir();
  const files = [["AWS_CONFIG_FILE", "config"], ["AWS_SHARED_CREDENTIALS_FILE", "credentials"]];
  for (const [name, usual] of files) {
    const file = (Deno.env.get(name) || `~/.aws/${usual}`).replace(/^~\//, () => `${home}/`);
    const path = await Deno.realPath(file).catch(() => undefined);
    if (path === undefined) continue;
    // Who can write a folder can replace the file, and the link to it.
    for (const each of new Set([path, dirname(path), await Deno.realPath(dirname(file))])) {
      const { isFile, isDirectory, uid, mode } = await Deno.stat(each);
      const found = { isFile: each === path ? isFile : isDirectory, uid, mode };
      const refused = accessProblem(each, found, { keep: "unchanged", root: "owns" });
      if (refused) throw fail(`${each} ${refused.problem}; a profile in it may name a program`, refused.hint);
    }
  }
}

function stored(key: string): LibraryKeys {
  const keys = roleKeysOf(key);
  if (!keys) {
    throw fail(
      "the store has no key that takes the role",
      "add it again: sbx credentials add aws --role ARN",
    );
  }
  const { id, secret, token } = keys;
  return { accessKeyId: id, secretAccessKey: secret, ...(token !== undefined && { sessionToken: token }) };
}

/** @param seen profiles that led here */
async function keysOfProfile(chain: Chain, name: string, seen: string[]): Promise<LibraryKeys> {
  const profile = Object.hasOwn(chain.profiles, name) ? chain.profiles[name] : undefined;
  if (!profile) {
    throw fail(
      `the AWS configuration of this machine has no profile "${name}"`,
      "aws configure list-profiles names them",
    );
  }
  if (seen.length >= CHAIN_MAX) throw fail(`more than ${CHAIN_MAX} profiles take each other's keys`);
  if (profile.role_arn !== undefined && !seen.includes(name)) {
    return await keysOfRole(chain, name, profile, seen);
  }
  if (profile.sso_account_id !== undefined || profile.sso_session !== undefined) {
    const { fromSSO } = await import("@aws-sdk/credential-providers");
    return await asked(
      chain,
      `SSO gave no keys to the profile "${name}"`,
      `aws sso login --profile ${name}`,
      // Its region is the one of the login.
      fromSSO({
        profile: name,
        ignoreCache: true,
        clientConfig: { requestHandler: chain.handler, maxAttempts: ATTEMPTS },
      }),
    );
  }
  if (profile.credential_process !== undefined) return await keysOfProcess(name, profile.credential_process);
  const { aws_access_key_id: id, aws_secret_access_key: secret, aws_session_token: token } = profile;
  if (id !== undefined && secret !== undefined) {
    return { accessKeyId: id, secretAccessKey: secret, ...(token !== undefined && { sessionToken: token }) };
  }
  throw fail(
    seen.includes(name)
      ? `the profile "${name}" takes its own keys, and has none`
      : `the profile "${name}" has no keys`,
    "sbx reads keys, sso_session, credential_process, and role_arn with source_profile",
  );
}

async function keysOfRole(
  chain: Chain,
  name: string,
  profile: Profile,
  seen: string[],
): Promise<LibraryKeys> {
  const { role_arn: RoleArn, source_profile: source, web_identity_token_file: webIdentityTokenFile } =
    profile;
  if (profile.mfa_serial !== undefined) {
    throw fail(
      `the profile "${name}" needs a code of a second factor each time`,
      "use SSO, or a role without it",
    );
  }
  const { role_session_name: RoleSessionName, external_id: ExternalId, region } = profile;
  if (webIdentityTokenFile !== undefined) {
    const { fromTokenFile } = await import("@aws-sdk/credential-providers");
    const clientConfig = clientOf(chain, region);
    const provider = fromTokenFile({
      webIdentityTokenFile,
      roleArn: RoleArn,
      roleSessionName: RoleSessionName ?? SESSION,
      clientConfig,
    });
    return await asked(
      chain,
      `STS gave no keys to the profile "${name}"`,
      "renew its token, and try again",
      provider,
    );
  }
  if (source === undefined) {
    throw fail(
      `the profile "${name}" takes a role without a source_profile`,
      "name one in your AWS configuration",
    );
  }
  const own = await keysOfProfile(chain, source, [...seen, name]);
  return await takeRole(chain, own, { RoleArn: RoleArn!, RoleSessionName, ExternalId }, { region });
}

async function keysOfProcess(name: string, line: string): Promise<LibraryKeys> {
  const argv = wordsOf(line);
  const what = `the credential_process of the profile "${name}"`;
  if (!argv || argv.length === 0) throw fail(`${what} is no command`, "quote its words as a shell does");
  const text = await runProgram(argv, what);
  const found = readProcessKeys(text);
  const keys = found && awsKeysOf(found.secret);
  if (!keys) throw fail(`${what} gave no usable keys`, "run it by hand to see its output");
  return {
    accessKeyId: keys.id,
    secretAccessKey: keys.secret,
    ...(keys.token !== undefined && { sessionToken: keys.token }),
    ...(found.end !== undefined && { expiration: new Date(found.end) }),
  };
}

/** Words of a command as Amazon's clients cut them: quotes and backslashes, and no shell. `undefined` for an open quote. */
function wordsOf(line: string): string[] | undefined {
  const words: string[] = [];
  const pattern = /\s*((?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)/ys;
  const text = line.trimEnd();
  while (pattern.lastIndex < text.length) {
    const [, word] = pattern.exec(text) ?? [];
    if (word === undefined) return undefined;
    words.push(
      word.replace(
        /\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/gs,
        (_, escaped, double, single) => escaped ?? single ?? double.replace(/\\(["\\])/g, "$1"),
      ),
    );
  }
  return words;
}

interface Role {
  RoleArn: string;
  RoleSessionName?: string;
  ExternalId?: string;
}

async function takeRole(
  chain: Chain,
  masterCredentials: LibraryKeys,
  { RoleArn, RoleSessionName = SESSION, ExternalId }: Role,
  { region }: { region?: string },
): Promise<LibraryKeys> {
  const { fromTemporaryCredentials } = await import("@aws-sdk/credential-providers");
  const provider = fromTemporaryCredentials({
    masterCredentials,
    params: {
      RoleArn,
      RoleSessionName,
      DurationSeconds: ROLE_S,
      ...(ExternalId !== undefined && { ExternalId }),
    },
    clientConfig: clientOf(chain, region),
  });
  return await asked(
    chain,
    `the role ${RoleArn} was not given`,
    "check its trust policy, and the key that takes it",
    provider,
  );
}

function clientOf({ region, handler }: Chain, ofProfile?: string) {
  return { region: region ?? ofProfile ?? REGION, requestHandler: handler, maxAttempts: ATTEMPTS };
}

/** @throws {SbxError} nothing of an answer but a known code */
async function asked(
  chain: Chain,
  problem: string,
  hint: string,
  provider: () => Promise<LibraryKeys>,
): Promise<LibraryKeys> {
  try {
    return await provider();
  } catch (error) {
    const { name, message } = error as Error;
    // Of SSO's client, the library keeps the text alone.
    const code = KNOWN.find((each) => each === name || message.startsWith(`${each}:`));
    const reason = code ?? chain.handler.failure?.message;
    throw fail(reason === undefined ? problem : `${problem}: ${reason}`, hint);
  }
}

function fail(
  problem: string,
  hint = "check the identity in your AWS configuration and in AWS's console",
): SbxError {
  return programError(problem, hint);
}
