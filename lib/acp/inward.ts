/**
 * The editor's words for the agent in the VM: paths are the VM's, and files
 * outside of the folder stay outside.
 */
import { basename } from "node:path";
import type { ContentBlock, PromptRequest } from "@agentclientprotocol/sdk";
import type { Place } from "./place.ts";

/**
 * A prompt for the agent. Text that the person attached goes along, of a file outside
 * of the folder without its path.
 */
export function promptIn(prompt: PromptRequest["prompt"], place: Place): ContentBlock[] {
  return prompt.map((block) => blockIn(block, place));
}

function blockIn(block: ContentBlock, place: Place): ContentBlock {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image": {
      const { data, mimeType } = block;
      return { type: "image", data, mimeType };
    }
    case "audio": {
      const { data, mimeType } = block;
      return { type: "audio", data, mimeType };
    }
    case "resource_link": {
      const { name, title, description, mimeType, size } = block;
      const uri = addressIn(block.uri, place);
      if (uri !== undefined) return { type: "resource_link", name, title, description, mimeType, size, uri };
      return { type: "text", text: `(${name} is outside of the folder that this VM has)` };
    }
    case "resource": {
      const { resource } = block;
      const { mimeType } = resource;
      const uri = addressIn(resource.uri, place) ?? `attached:///${encodeURIComponent(nameOf(resource.uri))}`;
      return {
        type: "resource",
        resource: "text" in resource
          ? { uri, mimeType, text: resource.text }
          : { uri, mimeType, blob: resource.blob },
      };
    }
  }
}

/** A file's address in the VM; an address of something else, such as a page of the web, as it is. */
function addressIn(uri: string, place: Place): string | undefined {
  const protocol = URL.parse(uri)?.protocol;
  if (protocol === "http:" || protocol === "https:") return uri;
  return protocol === "file:" ? place.uriToGuest(uri) : undefined;
}

function nameOf(uri: string): string {
  const path = URL.parse(uri)?.pathname ?? "";
  try {
    return basename(decodeURIComponent(path)) || "text";
  } catch {
    return "text";
  }
}
