/**
 * Client of the HTTP API for the CLI; starts the daemons when they are missing. Loads quickly: no zod, no
 * hono.
 */
export {
  Client,
  type RequestParts,
  responseError,
  segment,
  type ServerEvent,
  serverEvents,
  SseParser,
  toolSegment,
} from "./client.ts";
export {
  type Daemon,
  daemonPid,
  findUnreachableGateway,
  gatewayClient,
  parsePort,
  pidFileOf,
  portFromEnv,
  probeGateway,
  serviceAnswers,
  start,
  type StartOptions,
  type StartResult,
  stopDaemon,
} from "./start.ts";
