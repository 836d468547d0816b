/**
 * Decoys in bytes of a guest that no filter replaces in (docs/design/contracts/09-credentials.md §9,
 * "Decoys"): a connection or a body with one ends there.
 */
import type { Gate } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { CredentialDenied, type CredentialPort, type DecoySearch } from "../interface/mod.ts";
import { packedIn } from "../message/packed.ts";
import { substitutionDraft } from "./draft.ts";
import type { Requester } from "./request.ts";

/** Where a guest sends bytes to. */
export interface DecoyPlace {
  gate: Pick<Gate, "refuse">;
  broker: Pick<CredentialPort, "decoys">;
  by: Requester;
  host: string;
  /** for the record, such as `statement` */
  location: string;
  /** event that the bytes belong to */
  event_id?: string;
}

/** Searches the packed parts of a body. @throws {CredentialDenied} one has a decoy */
export async function seekPacked(
  broker: Pick<CredentialPort, "decoys" | "seeksDecoys">,
  host: string,
  body: Uint8Array,
): Promise<void> {
  if (!broker.seeksDecoys || !broker.decoys) return;
  for await (const part of packedIn(body)) broker.decoys(host, "body").push(part);
}

/** Ends a connection of a guest at the first decoy. @throws {ConnectionLost} it has sent one already */
export function watchForDecoys(connection: BufferedConnection, place: DecoyPlace): void {
  const search = place.broker.decoys?.(place.host, place.location);
  if (!search) return;
  connection.inspect((bytes) => {
    try {
      search.push(bytes);
    } catch (error) {
      return recordDecoy(error, place);
    }
  });
}

/** Bytes of a reader without the ones from a decoy on. */
export class SearchedReader {
  readonly #source: { next(): Promise<Uint8Array | undefined> };
  readonly #search: DecoySearch | undefined;
  readonly #place: DecoyPlace;
  #isOver = false;

  constructor(source: { next(): Promise<Uint8Array | undefined> }, place: DecoyPlace) {
    this.#source = source;
    this.#search = place.broker.decoys?.(place.host, place.location);
    this.#place = place;
  }

  /** Next bytes; `undefined` at the end. @throws {CredentialDenied} */
  async next(): Promise<Uint8Array | undefined> {
    while (!this.#isOver) {
      const bytes = await this.#source.next();
      if (!bytes) this.#isOver = true;
      if (!this.#search) return bytes;
      try {
        const passed = bytes ? this.#search.push(bytes) : this.#search.end();
        if (passed.length > 0) return passed;
      } catch (error) {
        this.#isOver = true;
        recordDecoy(error, this.#place);
        throw error;
      }
    }
  }
}

/** Records the use of a decoy. @returns a predicate of the client @throws every other error */
function recordDecoy(error: unknown, { gate, by, event_id }: DecoyPlace): string {
  if (!(error instanceof CredentialDenied)) throw error;
  for (const substitution of error.substitutions) {
    const reason = substitution.reason ?? "the credential may not be used there";
    gate.refuse(substitutionDraft(by, substitution, event_id), { id: "guard-credential", reason });
  }
  return "sent a credential, and credentials do not travel there";
}
