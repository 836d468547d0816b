/**
 * Services of a VM: jobs that are started with it, in order, and again when they
 * end (docs/guides/services.md).
 */
export {
  type FailedService,
  newlyFailed,
  type ServiceAction,
  Services,
  type ServicesOptions,
} from "./services.ts";
export { IMAGE_SERVICE, imageService, type ServiceDefinition } from "./definition.ts";
export type { ServiceGuest } from "./service.ts";
export { backOff, FAILURES_MAX } from "./service.ts";
