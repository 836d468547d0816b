/** A question as the event that it is (contracts.md §5). */
import type { EventProcess } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";
import type { Known } from "./cache.ts";
import { PROCESS_NAME_MAX } from "./limit.ts";
import { plainName, type Question } from "./packet.ts";
import { answerText } from "./text.ts";

/** Who asks, as the guest says it: nothing depends on it but the event. */
export interface Asker {
  proto: "udp" | "tcp";
  /** empty when it is not known */
  process_name: string;
}

export type Actor = "vm" | "host";

/** @param known its answer, where that is here already: one decision is enough then */
export function draftOf({ name, type }: Question, by: Asker, actor: Actor, known?: Known): Draft {
  const process = processOf(by.process_name);
  return {
    common: { event_type: "dns.query", source_engine: "network", actor, ...(process && { process }) },
    dns: {
      request: { qname: plainName(name), qtype: type, transport: by.proto },
      ...(known && { response: responseOf(known) }),
    },
  };
}

/** A guest's word: what does not look like a program's name is left out. */
function processOf(name: string): EventProcess | undefined {
  // deno-lint-ignore no-control-regex
  const plain = name.replace(/[\x00-\x1f\x7f]/g, "").slice(0, PROCESS_NAME_MAX);
  return plain === "" ? undefined : { pid: 0, ppid: 0, executable: plain, command: plain, cwd: "" };
}

export function responseOf({ rcode, records }: Known): { rcode: string; answers: string[] } {
  return { rcode, answers: records.map(answerText) };
}
