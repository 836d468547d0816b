/** Calls whose answers hold keys or tokens: a guest would have a secret that its placeholder stands for. */
import type { HttpAws } from "../../event/mod.ts";

/** Calls of STS that answer without keys; all others are refused. */
const HARMLESS = new Set(["sts:GetCallerIdentity", "sts:DecodeAuthorizationMessage", "sts:GetAccessKeyInfo"]);
/** Services that hand out nothing but tokens. */
const SERVICES = new Set([
  "sts",
  "sso",
  "awsssoportal",
  "sso-oauth",
  "awsssooidc",
  "signin",
  "rolesanywhere",
]);
const ACTIONS = new Set([
  "bedrock:CreateServiceSpecificCredential",
  "cognito-identity:GetCredentialsForIdentity",
  "cognito-identity:GetOpenIdToken",
  "cognito-identity:GetOpenIdTokenForDeveloperIdentity",
  "codepipeline:GetJobDetails",
  "ecr-public:GetAuthorizationToken",
  "ecr:GetAuthorizationToken",
  "gamelift:RequestUploadCredentials",
  "iam:CreateAccessKey",
  "iam:CreateServiceSpecificCredential",
  "iam:ResetServiceSpecificCredential",
  "lightsail:CreateBucketAccessKey",
  "redshift-serverless:GetCredentials",
  "redshift:GetClusterCredentials",
  "redshift:GetClusterCredentialsWithIAM",
  "s3:CreateSession",
]);
/**
 * Services of which an unread operation may be one of {@linkcode ACTIONS}, of
 * those that name their operation.
 */
const NAMED = new Set([
  "codepipeline",
  "cognito-identity",
  "ecr",
  "ecr-public",
  "gamelift",
  "iam",
  "lightsail",
  "redshift",
  "redshift-serverless",
]);
/** Targets of services whose paths stand for operations. */
const TARGETS: Record<string, RegExp> = {
  s3: /[?&]session(?:[=&]|$)|\/accessgrantsinstance\/dataaccess/i,
  s3express: /[?&]session(?:[=&]|$)/i,
  codeartifact: /\/authorization-token/i,
  connect: /\/user\/federate\//i,
  lakeformation: /\/GetTemporary/i,
};

/** True for a call whose answer may hold keys. */
export function mintsKeys({ service, action }: HttpAws, target: string): boolean {
  if (action !== undefined && HARMLESS.has(action)) return false;
  if (SERVICES.has(service) || action !== undefined && ACTIONS.has(action)) return true;
  if (action === undefined && NAMED.has(service)) return true;
  const pattern = TARGETS[service];
  return pattern !== undefined && (pattern.test(target) || pattern.test(decoded(target)));
}

/** Undoes the escapes of ASCII. */
function decoded(target: string): string {
  return target.replace(/%([2-7][0-9A-Fa-f])/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
}
