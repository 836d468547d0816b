/** The aggregator protocol over a pair of pipes (docs/contracts.md §8, "Aggregator protocol"). */
import { REQUESTS_MAX } from "../limit.ts";
import { LineWriter, parseJson, readLines } from "../ndjson.ts";
import { readRequest, type RequestLine } from "../protocol.ts";
import { errorLine } from "./answer.ts";
import { Service, type ServiceOptions } from "./service.ts";

export interface Pipes {
  input: { read(into: Uint8Array): Promise<number | null> };
  output: { write(bytes: Uint8Array): Promise<unknown> };
}

/** Serves until `shutdown` or the end of the input, then disconnects from every server. */
export async function serveAggregator({ input, output }: Pipes, options: ServiceOptions): Promise<void> {
  const { log } = options;
  const service = new Service(options);
  const writer = new LineWriter(output);
  let started = false;
  let running = 0;
  for await (const line of readLines(input)) {
    if ("problem" in line) {
      log(`skipped: ${line.problem}`);
      if (!started) service.start([]);
      started = true;
      continue;
    }
    if (!started) {
      started = true;
      service.start(parseJson(line.text));
      continue;
    }
    const request = readRequest(line.text);
    if (!request) log("skipped a malformed line");
    else if (running >= REQUESTS_MAX) {
      writer.write(errorLine(request.id, `${REQUESTS_MAX} requests are running, the limit`));
    } else {
      running++;
      const done = respond(service, request, writer).finally(() => running--);
      if (request.method !== "shutdown") continue;
      await done;
      return await writer.flush();
    }
  }
  await service.close();
  await writer.flush();
}

async function respond(service: Service, request: RequestLine, writer: LineWriter): Promise<void> {
  try {
    writer.write(await service.answer(request));
  } catch (error) {
    writer.write(errorLine(request.id, (error as Error).message));
  }
}
