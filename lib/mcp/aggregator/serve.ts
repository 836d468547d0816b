/**
 * The aggregator protocol over a pair of pipes (docs/design/contracts/08-mcp.md §8, "Aggregator protocol").
 */
import { REQUESTS_MAX } from "../limit.ts";
import { LineWriter, readLines, valueOf } from "../ndjson.ts";
import { readRequest, type RequestLine } from "../protocol.ts";
import { errorLine, partLines } from "./answer.ts";
import { Service, type ServiceOptions } from "./service.ts";

export interface Pipes {
  input: { read(into: Uint8Array): Promise<number | null> };
  output: { write(bytes: Uint8Array): Promise<unknown> };
}

/**
 * Serves until `shutdown` or the end of the input, then disconnects from every server. Requests that are pending then
 * are answered with an error, before `shutdown` is.
 */
export async function serveAggregator({ input, output }: Pipes, options: ServiceOptions): Promise<void> {
  const { log, debug } = options;
  const service = new Service(options);
  const writer = new LineWriter(output);
  const pending = new PendingAnswers(writer);
  let started = false;
  for await (const line of readLines(input)) {
    if ("problem" in line) {
      log(`skipped: ${line.problem}`);
      if (!started) service.start([]);
      started = true;
      continue;
    }
    if (!started) {
      started = true;
      service.start(valueOf(line.text));
      continue;
    }
    const request = readRequest(line.text);
    if (request) debug?.(`request ${request.method}`);
    if (!request) log("skipped a malformed line");
    else if (request.method === "shutdown") {
      await pending.failAll();
      const answer = await answerOf(service, request);
      writer.write(answer);
      return await writer.flush();
    } else if (pending.count >= REQUESTS_MAX) {
      writer.write(errorLine(request.id, `${REQUESTS_MAX} requests are running, the limit`));
    } else pending.add(request.id, answerOf(service, request));
  }
  await pending.failAll();
  await service.close();
  await writer.flush();
}

/** Answers that are not written yet. */
class PendingAnswers {
  readonly #writer: LineWriter;
  readonly #requests = new Set<{ id: number }>();

  constructor(writer: LineWriter) {
    this.#writer = writer;
  }

  get count(): number {
    return this.#requests.size;
  }

  /** Writes an answer when it is there, unless the request has failed by then. */
  add(id: number, answer: Promise<string>): void {
    const request = { id };
    this.#requests.add(request);
    answer.then((line) => {
      if (!this.#requests.delete(request)) return;
      for (const part of partLines(id, line)) this.#writer.write(part);
    });
  }

  /** Answers every request with an error, except requests answered in this turn of the event loop. */
  async failAll(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    for (const { id } of this.#requests) {
      this.#writer.write(errorLine(id, "the MCP aggregator is shutting down"));
    }
    this.#requests.clear();
  }
}

async function answerOf(service: Service, request: RequestLine): Promise<string> {
  try {
    return await service.answer(request);
  } catch (error) {
    return errorLine(request.id, (error as Error).message);
  }
}
