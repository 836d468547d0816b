/**
 * Answers of the host in place of a cloud's metadata server (docs/design/contracts/09-credentials.md §9,
 * "Clouds"): a VM finds its identity as on a machine of the cloud, with refs in place of tokens. Nothing
 * here is asked of a real server.
 */
import { plainHost } from "../../base/address/mod.ts";
import type { AttendedRequest, HostAnswer } from "../../network/interface/mod.ts";
import type { StoredEntry } from "../entry.ts";
import { APP_SERVICE_HEADER, APP_SERVICE_PATH, type Identities } from "./identities.ts";
import { type AzureTerms, resourcesNamed } from "./terms.ts";

/** `s` after which a client asks again: it then finds the ref of the credential added last. */
const LIFE_S = 3600;
const GOOGLE_PATH = "/computemetadata/v1/";
const AZURE_PATH = "/metadata/identity/oauth2/token";

type Answer = Omit<HostAnswer, "substitutions"> & { entry?: StoredEntry };

/** Answers any request: with a refusal, where it is not one that the server of a cloud would answer. */
export function metadataAnswer({ gcp, azure }: Identities, request: AttendedRequest): HostAnswer {
  const header = (name: string) => request.headers.find(([field]) => field === name)?.[1];
  const { entry, ...answer } = request.method !== "GET"
    ? text(405, "only GET is answered")
    // A request that something relayed may be another's, by whom the program was misled.
    : header("x-forwarded-for") !== undefined || header("forwarded") !== undefined
    ? text(403, "a request that was forwarded gets no token")
    : `${request.path}/`.toLowerCase().startsWith(GOOGLE_PATH) && gcp.length > 0
    ? googleAnswer(gcp[0], request, header("metadata-flavor"))
    : request.path.toLowerCase() === AZURE_PATH && azure.length > 0
    ? azureAnswer(azure, queryOf(request), header("metadata")?.toLowerCase() === "true" || "Metadata: true")
    : request.path.toLowerCase() === APP_SERVICE_PATH && azure.length > 0
    ? azureAnswer(
      azure,
      queryOf(request),
      header("x-identity-header") === APP_SERVICE_HEADER ||
        "X-IDENTITY-HEADER of the variable IDENTITY_HEADER",
    )
    : text(404, "no cloud has this path here");
  return {
    ...answer,
    substitutions: entry === undefined ? [] : [{
      provider: entry.provider,
      credential_ref: entry.ref,
      host: plainHost(request.host),
      location: "metadata",
      outcome: "brokered",
    }],
  };
}

function googleAnswer(entry: StoredEntry, request: AttendedRequest, flavor: string | undefined): Answer {
  if (flavor !== "Google") return text(403, "the header Metadata-Flavor: Google is missing");
  const cloud = entry.origin?.cloud;
  const { email, project, scopes = [] } = cloud?.kind === "gcp" ? cloud : {};
  const words = request.path.slice(GOOGLE_PATH.length).split("/").filter((word) => word !== "");
  const isRecursive = queryOf(request).get("recursive")?.toLowerCase() === "true";
  const [area, what, account, field] = words;
  if (words.length === 0) return google("instance/\nproject/\nuniverse/\n");
  if (area === "universe") {
    return what === undefined || what === "universe-domain" ? google("googleapis.com") : missing();
  }
  if (area === "project") {
    return what === "project-id" && project !== undefined ? google(project) : missing();
  }
  if (area !== "instance") return missing();
  if (what === undefined) return google("service-accounts/\n");
  if (what !== "service-accounts") return missing();
  const facts = { aliases: ["default"], email: email ?? "default", scopes };
  if (account === undefined) return isRecursive ? googleJson({ default: facts }) : google("default/\n");
  if (account !== "default" && account !== email) return missing();
  switch (field) {
    case undefined:
      return isRecursive ? googleJson(facts) : google("aliases\nemail\nidentity\nscopes\ntoken\n");
    case "aliases":
      return google("default\n");
    case "email":
      return google(facts.email);
    case "scopes":
      return google(`${scopes.join("\n")}\n`);
    case "token":
      return { ...googleJson({ access_token: entry.ref, expires_in: LIFE_S, token_type: "Bearer" }), entry };
    case "identity":
      // It would name the account to any server that the guest chooses.
      return google("sbx gives no identity tokens: they prove an account to any server", 403);
    default:
      return missing();
  }
}

/** @param hasHeader true, or the header that is missing */
function azureAnswer(
  entries: readonly StoredEntry[],
  query: URLSearchParams,
  hasHeader: true | string,
): Answer {
  const refuse = (error_description: string) => json(400, { error: "invalid_request", error_description });
  if (hasHeader !== true) return refuse(`the header ${hasHeader} is missing`);
  const resource = query.get("resource") ?? "";
  const words = resourcesNamed(resource);
  const wanted = query.get("client_id")?.toLowerCase();
  for (const entry of entries) {
    const cloud = entry.origin?.cloud as AzureTerms | undefined;
    if (cloud?.kind !== "azure" || !words.includes(cloud.resource)) continue;
    if (wanted !== undefined && wanted !== cloud.client_id) continue;
    const expires_on = Math.floor(Date.now() / 1000) + LIFE_S;
    const answer = {
      access_token: entry.ref,
      client_id: cloud.client_id,
      expires_in: `${LIFE_S}`,
      expires_on: `${expires_on}`,
      not_before: `${expires_on - LIFE_S}`,
      resource,
      token_type: "Bearer",
    };
    return { ...json(200, answer), entry };
  }
  return refuse("this VM has no identity for the resource: sbx credentials add azure");
}

function queryOf({ headers }: AttendedRequest): URLSearchParams {
  return new URLSearchParams(headers.find(([name]) => name === ":path")?.[1].split(/\?(.*)/s)[1] ?? "");
}

function google(body: string, status = 200): Answer {
  return { ...text(status, body), headers: [...text(status, body).headers!, ["metadata-flavor", "Google"]] };
}

function googleJson(value: unknown): Answer {
  const { headers = [], ...answer } = json(200, value);
  return { ...answer, headers: [...headers, ["metadata-flavor", "Google"]] };
}

function missing(): Answer {
  return google("not found", 404);
}

function text(status: number, body: string): Answer {
  return { status, body: new TextEncoder().encode(body), headers: [["content-type", "application/text"]] };
}

function json(status: number, value: unknown): Answer {
  const body = new TextEncoder().encode(JSON.stringify(value));
  return { status, body, headers: [["content-type", "application/json"]] };
}
