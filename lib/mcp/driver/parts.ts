/**
 * Answers that come in parts, since they are longer than a line (docs/design/contracts/08-mcp.md §8,
 * "Aggregator protocol").
 */
import { SbxError } from "../../base/error/mod.ts";
import { PARTS_TOTAL_MAX, RESULT_BYTES_MAX } from "../limit.ts";
import { byteLength } from "../ndjson.ts";
import { AnswerPart } from "../protocol.ts";

interface OpenAnswer {
  texts: string[];
  bytes: number;
}

/** Joins parts. Its buffer is bounded: the aggregator that sends them talks to untrusted servers. */
export class AnswerParts {
  readonly #open = new Map<number, OpenAnswer>();
  #bytes = 0;

  /**
   * Takes a part of an answer that is waited for.
   *
   * @returns the line of the answer once it is whole
   * @throws {SbxError} `mcp.failed`, `mcp.too_large`; nothing of the answer is held then
   */
  add(id: number, value: unknown): string | undefined {
    const answer = this.#open.get(id) ?? { texts: [], bytes: 0 };
    const { data: part } = AnswerPart.safeParse(value);
    if (part?.part !== answer.texts.length) {
      this.drop(id);
      throw new SbxError("mcp.failed", "the MCP aggregator sent an answer whose parts do not fit together");
    }
    const bytes = byteLength(part.text);
    if (answer.bytes + bytes > RESULT_BYTES_MAX || this.#bytes + bytes > PARTS_TOTAL_MAX) {
      this.drop(id);
      throw new SbxError(
        "mcp.too_large",
        `the result has more than ${RESULT_BYTES_MAX} bytes, or all results on their way more than ${PARTS_TOTAL_MAX}`,
        { hint: "ask the server for less, or for fewer results at once" },
      );
    }
    answer.texts.push(part.text);
    answer.bytes += bytes;
    this.#bytes += bytes;
    this.#open.set(id, answer);
    if (!part.last) return undefined;
    this.drop(id);
    return answer.texts.join("");
  }

  /** Forgets the parts of an answer that is not waited for any more. */
  drop(id: number): void {
    this.#bytes -= this.#open.get(id)?.bytes ?? 0;
    this.#open.delete(id);
  }
}
