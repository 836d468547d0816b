/** Answers of the agent in the VM. The SDK checks requests alone, and the agent may answer with anything. */
import { z } from "zod";

/** Most characters of a name or a description. */
const TEXT_MAX = 4096;
/** Most entries of a list. */
const ENTRIES_MAX = 1000;

const text = z.string().max(TEXT_MAX);
const optional = text.nullish();
const list = <T extends z.ZodType>(schema: T) => z.array(schema).max(ENTRIES_MAX);
const has = z.object({}).nullish();

/** Id of a session: editors keep it, maybe as the name of a file. */
export const SessionId = z.string().regex(/^(?!\.+$)[\w.:-]{1,128}$/, "not the id of a session");

export const Initialized = z.object({
  protocolVersion: z.literal(1),
  agentCapabilities: z.object({
    loadSession: z.boolean().optional(),
    promptCapabilities: z.object({
      image: z.boolean().optional(),
      audio: z.boolean().optional(),
      embeddedContext: z.boolean().optional(),
    }).optional(),
    sessionCapabilities: z.object({ list: has, resume: has, close: has, delete: has }).nullish(),
  }).optional(),
  agentInfo: z.object({ name: text, title: optional, version: text }).nullish(),
});

const Choice = z.object({ value: text, name: text, description: optional });
const ConfigOption = z.object({
  id: text,
  name: text,
  description: optional,
  category: optional,
  type: z.enum(["select", "boolean"]),
  currentValue: z.union([text, z.boolean()]),
  options: z.union([
    list(Choice),
    list(z.object({ group: text, name: text, options: list(Choice) })),
  ]).optional(),
});
const Setup = z.object({
  modes: z.object({
    currentModeId: text,
    availableModes: list(z.object({ id: text, name: text, description: optional })),
  }).nullish(),
  configOptions: list(ConfigOption).nullish(),
});

export const NewSession = Setup.extend({ sessionId: SessionId });
export const LoadedSession = Setup;
export const ConfigChanged = z.object({ configOptions: list(ConfigOption) });
export const SessionList = z.object({
  sessions: list(z.object({ sessionId: SessionId, cwd: text, title: optional, updatedAt: optional })),
  nextCursor: optional,
});
export const Prompted = z.object({
  stopReason: z.enum(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]),
});
