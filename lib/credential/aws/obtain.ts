/**
 * Obtains keys of an AWS identity (docs/design/contracts/09-credentials.md §9, "Clouds"): from a profile of
 * the host's own configuration, with SSO, credential_process and roles, or for a role that stored keys take.
 * Amazon's library asks SSO and STS.
 */
import { homedir } from "node:os";
import { dirname } from "node:path";
import { asSbxError, ifFound, type SbxError } from "../../base/error/mod.ts";
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
/** Life of keys without an end, in `s`: their file is read again then. */
const TTL_S = 900;
/** Life of a role's keys, in `s`: the most that AWS gives a role taken by a role. */
const ROLE_TTL_S = 3600;
/** Region of the requests to STS where no configuration names one. */
const DEFAULT_REGION = "us-east-1";
/** Most attempts at one request. */
const ATTEMPTS_MAX = 2;
/** Name of a role's sessions in the records of its account. */
const ROLE_SESSION = "sbx";
/** Failures that an error may name: any other text of a server may hold a key. */
const KNOWN_FAILURES = [
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

/** Keys in the form of Amazon's library. */
interface LibraryKeys {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  expiration?: Date;
}

type Profile = Record<string, string | undefined>;

/** Parts shared by profiles that take each other's keys. */
interface Chain {
  profiles: Record<string, Profile>;
  region?: string;
  handler: ReturnType<typeof fetchHandler>;
}

/**
 * Obtains keys that are valid now.
 *
 * @param key the store's secret, used where no profile is named
 * @throws {SbxError} `credential.program`: there are no keys, and why
 */
export async function obtainAwsKeys(
  terms: AwsTerms,
  key: string,
  // STS would answer in JSON if asked to, and Amazon's library reads XML only.
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
  const own = profile === undefined ? storedKeys(key) : await keysOfProfile(chain, profile, []);
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
  if (secret === undefined) throw failure("AWS gave no usable keys");
  const expires_at = keys.expiration?.getTime() ?? obtained_at + TTL_S * 1000;
  if (!(expires_at > Date.now())) {
    throw failure("the keys of AWS have expired", "log in again: aws sso login");
  }
  return { secret, obtained_at, expires_at };
}

/**
 * Requires that no other user can write the profiles: one may name a program, which
 * would run as the service's user.
 *
 * @throws {SbxError} `credential.program`
 */
async function requireOwnConfig(): Promise<void> {
  // As Amazon's library finds them: an empty variable counts as unset, and `~/` is the home.
  const home = Deno.env.get("HOME") || homedir();
  const files = [["AWS_CONFIG_FILE", "config"], ["AWS_SHARED_CREDENTIALS_FILE", "credentials"]];
  for (const [name, usual] of files) {
    const file = (Deno.env.get(name) || `~/.aws/${usual}`).replace(/^~\//, () => `${home}/`);
    const path = await ifFound(Deno.realPath(file)).catch((cause) => {
      throw failure(asSbxError(cause, `finding ${file}`).message);
    });
    if (path === undefined) continue;
    // A user who can write the folder can replace the file, or the link to it.
    for (const each of new Set([path, dirname(path), await Deno.realPath(dirname(file))])) {
      const { isFile, isDirectory, uid, mode } = await Deno.stat(each);
      const found = { isFile: each === path ? isFile : isDirectory, uid, mode };
      const refused = accessProblem(each, found, { keep: "unchanged", root: "owns" });
      if (refused) {
        throw failure(`${each} ${refused.problem}; a profile in it may name a program`, refused.hint);
      }
    }
  }
}

/** Keys of the store that take a role. */
function storedKeys(key: string): LibraryKeys {
  const keys = roleKeysOf(key);
  if (!keys) {
    throw failure(
      "the store has no key that takes the role",
      "add it again: sbx credentials add aws --role ARN",
    );
  }
  const { id, secret, token } = keys;
  return { accessKeyId: id, secretAccessKey: secret, ...(token !== undefined && { sessionToken: token }) };
}

/** Keys of a profile. @param seen profiles that led here, for circles */
async function keysOfProfile(chain: Chain, name: string, seen: string[]): Promise<LibraryKeys> {
  const profile = Object.hasOwn(chain.profiles, name) ? chain.profiles[name] : undefined;
  if (!profile) {
    throw failure(
      `the AWS configuration of this machine has no profile "${name}"`,
      "aws configure list-profiles names them",
    );
  }
  if (seen.length >= CHAIN_MAX) throw failure(`more than ${CHAIN_MAX} profiles take each other's keys`);
  if (profile.role_arn !== undefined && !seen.includes(name)) {
    return await keysOfRole(chain, name, profile, seen);
  }
  if (profile.sso_account_id !== undefined || profile.sso_session !== undefined) {
    const { fromSSO } = await import("@aws-sdk/credential-providers");
    return await ask(
      chain,
      `SSO gave no keys to the profile "${name}"`,
      `aws sso login --profile ${name}`,
      // The region of the login is the profile's own.
      fromSSO({
        profile: name,
        ignoreCache: true,
        clientConfig: { requestHandler: chain.handler, maxAttempts: ATTEMPTS_MAX },
      }),
    );
  }
  if (profile.credential_process !== undefined) return await keysOfProcess(name, profile.credential_process);
  const { aws_access_key_id: id, aws_secret_access_key: secret, aws_session_token: token } = profile;
  if (id !== undefined && secret !== undefined) {
    return { accessKeyId: id, secretAccessKey: secret, ...(token !== undefined && { sessionToken: token }) };
  }
  throw failure(
    seen.includes(name)
      ? `the profile "${name}" takes its own keys, and has none`
      : `the profile "${name}" has no keys`,
    "sbx reads keys, sso_session, credential_process, and role_arn with source_profile",
  );
}

/** Keys of a profile that takes a role, by a token or with the keys of its source_profile. */
async function keysOfRole(
  chain: Chain,
  name: string,
  profile: Profile,
  seen: string[],
): Promise<LibraryKeys> {
  const { role_arn: RoleArn, source_profile: source, web_identity_token_file: webIdentityTokenFile } =
    profile;
  if (profile.mfa_serial !== undefined) {
    throw failure(
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
      roleSessionName: RoleSessionName ?? ROLE_SESSION,
      clientConfig,
    });
    return await ask(
      chain,
      `STS gave no keys to the profile "${name}"`,
      "renew its token, and try again",
      provider,
    );
  }
  if (source === undefined) {
    throw failure(
      `the profile "${name}" takes a role without a source_profile`,
      "name one in your AWS configuration",
    );
  }
  const own = await keysOfProfile(chain, source, [...seen, name]);
  return await takeRole(chain, own, { RoleArn: RoleArn!, RoleSessionName, ExternalId }, { region });
}

/** Keys that a profile's credential_process prints. */
async function keysOfProcess(name: string, line: string): Promise<LibraryKeys> {
  const argv = wordsOf(line);
  const what = `the credential_process of the profile "${name}"`;
  if (!argv || argv.length === 0) {
    throw failure(`${what} is not a command`, "quote its words as a shell does");
  }
  const text = await runProgram(argv, what);
  const found = readProcessKeys(text);
  const keys = found && awsKeysOf(found.secret);
  if (!keys) throw failure(`${what} gave no usable keys`, "run it by hand to see its output");
  return {
    accessKeyId: keys.id,
    secretAccessKey: keys.secret,
    ...(keys.token !== undefined && { sessionToken: keys.token }),
    ...(found.end !== undefined && { expiration: new Date(found.end) }),
  };
}

/**
 * Words of a command as Amazon's clients split it: with quotes and backslashes, without a
 * shell. `undefined`: open quote.
 */
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

/** Role to take, in the names of STS. */
interface Role {
  RoleArn: string;
  RoleSessionName?: string;
  ExternalId?: string;
}

async function takeRole(
  chain: Chain,
  masterCredentials: LibraryKeys,
  { RoleArn, RoleSessionName = ROLE_SESSION, ExternalId }: Role,
  { region }: { region?: string },
): Promise<LibraryKeys> {
  const { fromTemporaryCredentials } = await import("@aws-sdk/credential-providers");
  const provider = fromTemporaryCredentials({
    masterCredentials,
    params: {
      RoleArn,
      RoleSessionName,
      DurationSeconds: ROLE_TTL_S,
      ...(ExternalId !== undefined && { ExternalId }),
    },
    clientConfig: clientOf(chain, region),
  });
  return await ask(
    chain,
    `the role ${RoleArn} was not given`,
    "check its trust policy, and the key that takes it",
    provider,
  );
}

function clientOf({ region, handler }: Chain, ofProfile?: string) {
  return {
    region: region ?? ofProfile ?? DEFAULT_REGION,
    requestHandler: handler,
    maxAttempts: ATTEMPTS_MAX,
  };
}

/**
 * Asks AWS.
 * @throws {SbxError} `credential.program`, whose text has no part of the answer but a known code
 */
async function ask(
  chain: Chain,
  problem: string,
  hint: string,
  provider: () => Promise<LibraryKeys>,
): Promise<LibraryKeys> {
  try {
    return await provider();
  } catch (error) {
    const { name, message } = error as Error;
    // The library keeps only the text of an error from SSO's client.
    const code = KNOWN_FAILURES.find((each) => each === name || message.startsWith(`${each}:`));
    const reason = code ?? chain.handler.failure?.message;
    throw failure(reason === undefined ? problem : `${problem}: ${reason}`, hint);
  }
}

/** Failure to obtain keys. */
function failure(
  problem: string,
  hint = "check the identity in your AWS configuration and in AWS's console",
): SbxError {
  return programError(problem, hint);
}
