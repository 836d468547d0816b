/** The HTTP API from the outside: what the CLI speaks to, and starts when it is missing. Loads quickly: no zod, no hono. */
export { Client, type RequestParts, segment } from "./client.ts";
export {
  type Daemon,
  daemonPid,
  gatewayClient,
  serviceAnswers,
  stopDaemon,
  unreachableGateway,
} from "./running.ts";
export { type ServerEvent, serverEvents, SseParser } from "./sse.ts";
export { start, type Started, type StartOptions } from "./start.ts";
