/** Events of recorded sessions for commands that replay them: from the service, or from files. */
import type { Client } from "../../../lib/client/mod.ts";
import type { LabEvent } from "../../../lib/lab/mod.ts";
import { connect } from "../connect.ts";
import { eventPages } from "./event_pages.ts";

/** End of the name of a file of events; names of VMs have no dot. */
const FILE_END = ".jsonl";

export const FILE_NOTE =
  "A FILE ends with .jsonl and has the events of a session as sbx events NAME --jsonl prints them.";

/** Reads events of sessions; connects to the service when the first one needs it, since files need none. */
export class RecordedEvents {
  #client?: Promise<Client>;

  client(): Promise<Client> {
    return this.#client ??= connect();
  }

  /** @param word name of a VM, id of a session, or file */
  async *of(word: string): AsyncGenerator<LabEvent> {
    if (word.endsWith(FILE_END)) {
      const { readEventFile } = await import("../../../lib/lab/mod.ts");
      return yield* readEventFile(word);
    }
    for await (const page of eventPages(await this.client(), word, {})) yield* page as unknown as LabEvent[];
  }
}
