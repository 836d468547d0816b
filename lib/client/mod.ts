/**
 * Client of the HTTP API for the CLI; starts the daemons when they are missing. Loads quickly: no zod, no
 * hono.
 */
export { Client, type RequestParts, responseError, segment, toolSegment } from "./client.ts";
export { parsePort, portFromEnv, start, type StartOptions, type StartResult } from "./start.ts";
export {
  type Daemon,
  daemonPid,
  findUnreachableGateway,
  gatewayClient,
  pidFileOf,
  probeGateway,
  serviceAnswers,
  stopDaemon,
} from "./running.ts";
export { type ServerEvent, serverEvents, SseParser } from "./sse.ts";
