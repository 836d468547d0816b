/** Agents from files of others: checked, stored beside their origin, and removed. */
import { dirname, join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import { type PublicKey, verifyEnvelope } from "../../release/mod.ts";
import {
  type Agent,
  BUILTIN_PROFILES,
  parseProfile,
  type Profile,
  PROFILE_ID,
  profilePath,
  requireCompatible,
  saveProfile,
} from "../profile/mod.ts";

/** Type of the payload of an envelope that holds an agent's profile. */
export const AGENT_TYPE = "application/vnd.sbx.agent.v1+toml";

/** File beside the profile of an added agent. */
const ORIGIN = "origin.json";

/** Tables that run programs on the host, or name files of it: a profile of a stranger has none. */
const REFUSED = ["mcp", "rule_files", "detection", "assets", "obom", "image", "grpc"] as const;

const AgentOrigin = z.strictObject({
  schema: z.literal("sbx.agent_origin.v1"),
  /** path or address that it was read from */
  source: z.string(),
  /** ids of the trusted keys that signed it; none: it was added unsigned */
  signed_by: z.array(z.string()),
  added_at: z.string(),
});
/** Where an added agent comes from. */
export type AgentOrigin = z.output<typeof AgentOrigin>;

/** An agent in a file, checked. */
export interface AddedAgent {
  profile: Profile & { agent: Agent };
  text: string;
  /** ids of the trusted keys that signed it; none: it is not signed */
  signedBy: string[];
}

/**
 * Reads the file of an agent: a profile.toml, or a DSSE envelope around one.
 *
 * @param taken words that no agent may be named by
 * @throws {SbxError} `agent.invalid`; `agent.builtin`: it takes the name of a profile
 * of sbx; `profile.…`; `release.…`
 */
export async function readAgentFile(
  bytes: Uint8Array,
  { source, trusted, taken }: { source: string; trusted: readonly PublicKey[]; taken: readonly string[] },
): Promise<AddedAgent> {
  // A profile.toml begins with a comment, a key or a table: never with a brace.
  const isEnvelope = bytes[0] === "{".charCodeAt(0);
  const { payload, keyIds } = isEnvelope
    ? await verifyEnvelope(bytes, { payloadType: AGENT_TYPE, trusted, source })
    : { payload: bytes, keyIds: [] };
  const text = decodeUtf8(payload);
  if (text === undefined) throw invalid(source, "is not UTF-8");
  const document = parseToml(text, source);
  const id = document.value.id;
  if (typeof id !== "string" || !PROFILE_ID.test(id)) throw invalid(source, "has no valid id");
  if (BUILTIN_PROFILES.has(id) || taken.includes(id)) {
    throw new SbxError("agent.builtin", `${source}: "${id}" is a name of sbx`, {
      hint: "its author has to give it another id",
    });
  }
  const table = REFUSED.find((each) => each in document.value);
  if (table) throw invalid(source, `has [${table}], which reaches this host`);
  const profile = parseProfile(document, { id, source: "user" });
  requireCompatible(profile);
  const { agent, credentials } = profile;
  if (!agent) throw invalid(source, "has no [agent]");
  if (Object.keys(credentials.custom).length > 0) {
    throw invalid(source, "has [credentials.custom], by which keys reach other hosts");
  }
  return { profile: { ...profile, agent }, text, signedBy: keyIds };
}

function invalid(source: string, problem: string): SbxError {
  return new SbxError("agent.invalid", `${source} ${problem}`, {
    hint: "docs/guides/agents.md says what a profile of an agent may have",
  });
}

/**
 * Where the agent of this id comes from.
 *
 * @returns undefined: it is built in, a person's own profile, or not there
 */
export async function originOf(
  home: Pick<Home, "profilesDir">,
  id: string,
): Promise<AgentOrigin | undefined> {
  const path = join(dirname(profilePath(home, id)), ORIGIN);
  const text = await Deno.readTextFile(path).catch((error) => {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return AgentOrigin.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError("agent.invalid", `${path} is damaged`, { cause, hint: `remove ${dirname(path)}` });
  }
}

/**
 * Stores an agent for this person, in place of the one of its id that was added before.
 *
 * @returns path of its profile.toml
 * @throws {SbxError} `profile.conflict`: the person has a profile of that id of their own
 */
export async function storeAgent(
  home: Pick<Home, "profilesDir">,
  { profile: { id }, text, signedBy }: AddedAgent,
  source: string,
  now = new Date(),
): Promise<string> {
  const path = profilePath(home, id);
  if (await originOf(home, id)) await writeAtomic(path, text);
  else await saveProfile(home, id, text);
  const origin: AgentOrigin = {
    schema: "sbx.agent_origin.v1",
    source,
    signed_by: signedBy,
    added_at: now.toISOString(),
  };
  await writeAtomic(join(dirname(path), ORIGIN), `${JSON.stringify(origin, null, 2)}\n`);
  return path;
}

/**
 * Removes an added agent.
 * @throws {SbxError} `agent.not_added`: it is built in, a person's own, or not there
 */
export async function removeAgent(home: Pick<Home, "profilesDir">, id: string): Promise<void> {
  if (!PROFILE_ID.test(id) || !await originOf(home, id)) {
    throw new SbxError("agent.not_added", `${JSON.stringify(id)} was not added by sbx agent add`, {
      hint: "sbx agent list says where each agent comes from",
    });
  }
  await Deno.remove(dirname(profilePath(home, id)), { recursive: true });
}
