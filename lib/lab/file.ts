/** Events of a session in a file, one per line, as `sbx events --jsonl` prints them. */
import { type FileHandle, open } from "node:fs/promises";
import { z } from "zod";
import { SbxError } from "../base/error/mod.ts";
import { parseJson } from "../base/json/mod.ts";
import { isObject } from "../base/object/mod.ts";
import { EventSchema } from "../event/schema.ts";
import type { LabEvent } from "./lab.ts";

/** Part of an event's end that rules sum up. */
const End = z.object({
  outcome: z.looseObject({ streamed_bytes: z.int().nonnegative().optional() }).optional(),
});

/** Reads the events of a file. @throws {SbxError} `lab.invalid`: names the first line that is not an event */
export async function* readEventFile(path: string): AsyncGenerator<LabEvent> {
  await using file = await openFile(path);
  let number = 0;
  for await (const line of file.readLines()) {
    number++;
    if (line.trim() !== "") yield parseLine(line, `${path}:${number}`);
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path);
  } catch (error) {
    throw invalid(path, `cannot be read: ${(error as Error).message}`);
  }
}

function parseLine(line: string, place: string): LabEvent {
  const { decision, rule_id, outcome, ...event } = objectOfLine(line, place);
  const parsed = EventSchema.safeParse(event);
  const end = End.safeParse({ outcome });
  if (!parsed.success || !end.success) {
    const [{ path, message }] = (parsed.error ?? end.error)!.issues;
    throw invalid(place, `${path.join(".") || "event"}: ${message}`);
  }
  const streamed_bytes = end.data.outcome?.streamed_bytes;
  return {
    ...parsed.data,
    ...(streamed_bytes !== undefined && { outcome: { streamed_bytes } }),
    ...(typeof decision === "string" && { decision }),
    ...(typeof rule_id === "string" && { rule_id }),
  };
}

function objectOfLine(line: string, place: string): Record<string, unknown> {
  try {
    const value = parseJson(line);
    if (isObject(value)) return value;
  } catch (error) {
    throw invalid(place, (error as Error).message);
  }
  throw invalid(place, "must be an object");
}

function invalid(place: string, problem: string): SbxError {
  return new SbxError("lab.invalid", `${place}: ${problem}`, {
    hint: "sbx events NAME --jsonl >FILE writes such files",
  });
}
