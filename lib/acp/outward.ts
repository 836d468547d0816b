/**
 * The agent's words for the editor. Only the forms named here pass: paths are the person's,
 * extensions (`_meta`, by which editors start programs or show their terminals) are left out, and
 * links out of the folder are text.
 */
import type {
  ContentBlock,
  SessionUpdate,
  ToolCall,
  ToolCallContent,
  ToolCallUpdate,
} from "@agentclientprotocol/sdk";
import { plain } from "../base/print/mod.ts";
import type { Place } from "./place.ts";

/** Start of the ids of sbx's own questions: the agent can neither change nor imitate them. */
export const OWN_CALL = "sbx-";
/** Most paths that a tool call shows. */
const LOCATIONS_MAX = 64;
/** Longest title of a tool call in characters. */
const TITLE_MAX = 1024;
/** A title that could be taken for a question of sbx, with letters of other alphabets that look the same. */
const LIKE_OURS = /^[^\p{L}\p{N}]*[sѕꜱ][bЬʙ][xхχ](?![\p{L}\p{N}])|[sѕꜱ][bЬʙ][xхχ]\s+asks/iu;
/** Characters that are drawn as nothing, or on top of another. */
const NOT_DRAWN = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{M}]/gu;

/** A session's update for the editor. @returns undefined: the editor does not get it */
export function updateOut(update: SessionUpdate, place: Place): SessionUpdate | undefined {
  switch (update.sessionUpdate) {
    case "user_message_chunk":
    case "agent_message_chunk":
    case "agent_thought_chunk": {
      const { sessionUpdate, messageId } = update;
      return { sessionUpdate, messageId, content: contentOut(update.content, place) };
    }
    case "tool_call": {
      const call = toolCallOut(update, place);
      return call && { ...call, title: call.title ?? "", sessionUpdate: "tool_call" } as SessionUpdate;
    }
    case "tool_call_update": {
      const call = toolCallOut(update, place);
      return call && { ...call, sessionUpdate: "tool_call_update" } as SessionUpdate;
    }
    case "plan":
    case "available_commands_update":
    case "current_mode_update":
    case "config_option_update":
    case "session_info_update":
    case "usage_update":
      return withoutMeta(update);
    default:
      return undefined;
  }
}

/** A tool call for the editor. @returns undefined: it has an id of sbx's */
export function toolCallOut(
  { toolCallId, title, kind, status, content, locations, rawInput, rawOutput }: ToolCall | ToolCallUpdate,
  place: Place,
): ToolCallUpdate | undefined {
  if (toolCallId.startsWith(OWN_CALL)) return undefined;
  return {
    toolCallId,
    ...title != null && { title: titleOut(title) },
    ...kind != null && { kind },
    ...status != null && { status },
    ...content != null && { content: content.map((each) => toolContentOut(each, place)) },
    ...locations != null && {
      locations: locations.slice(0, LOCATIONS_MAX).flatMap(({ path, line }) => {
        const own = place.toHost(path);
        return own === undefined ? [] : [{ path: own, ...line != null && { line } }];
      }),
    },
    ...rawInput !== undefined && { rawInput: withoutMeta(rawInput) },
    ...rawOutput !== undefined && { rawOutput: withoutMeta(rawOutput) },
  };
}

function titleOut(title: string): string {
  const whole = title.length > TITLE_MAX ? `${title.slice(0, TITLE_MAX).toWellFormed()}…` : title;
  const short = plain(whole);
  const drawn = whole.normalize("NFKC").replace(NOT_DRAWN, "");
  return LIKE_OURS.test(drawn) ? `the agent says: ${short}` : short;
}

function toolContentOut(content: ToolCallContent, place: Place): ToolCallContent {
  if (content.type === "content") return { type: "content", content: contentOut(content.content, place) };
  if (content.type === "diff") {
    const { path, oldText, newText } = content;
    const own = place.toHost(path);
    if (own !== undefined) return { type: "diff", path: own, oldText, newText };
    return { type: "content", content: text(`${path} in the VM:\n${newText}`) };
  }
  // Terminals are the editor's, on the host: the agent has none.
  return { type: "content", content: text("(a terminal in the VM)") };
}

function contentOut(content: ContentBlock, place: Place): ContentBlock {
  switch (content.type) {
    case "text":
      return text(content.text);
    case "image": {
      // Without its address: an editor could load it.
      const { data, mimeType } = content;
      return { type: "image", data, mimeType };
    }
    case "audio": {
      const { data, mimeType } = content;
      return { type: "audio", data, mimeType };
    }
    case "resource_link": {
      const { name, title, description, mimeType, size } = content;
      const uri = place.uriToHost(content.uri);
      if (uri === undefined) return text(`${name}: ${content.uri}`);
      return { type: "resource_link", name, title, description, mimeType, size, uri };
    }
    case "resource": {
      const { resource } = content;
      const uri = place.uriToHost(resource.uri);
      if (uri === undefined) return text("text" in resource ? resource.text : `(${resource.uri})`);
      const { mimeType } = resource;
      return {
        type: "resource",
        resource: "text" in resource
          ? { uri, mimeType, text: resource.text }
          : { uri, mimeType, blob: resource.blob },
      };
    }
  }
}

function text(text: string): ContentBlock {
  return { type: "text", text };
}

/** A value without the protocol's extensions, at any depth. */
export function withoutMeta<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutMeta) as T;
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([key]) => key !== "_meta" && key !== "__proto__");
  return Object.fromEntries(entries.map(([key, each]) => [key, withoutMeta(each)])) as T;
}
