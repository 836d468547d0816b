import type { Service } from "../../config/profile/services/schema.ts";
import type { HealthCheck, ImageProgram } from "../../release/environment/schema.ts";

/** Name of the service that is the program of the VM's image; a profile's own of this name goes before it. */
export const IMAGE_SERVICE = "image";
/** Output that is kept of it, in `MiB`. */
const LOG_MB = 8;

/** A service, with what only an image says of its program. */
export interface ServiceDefinition extends Service {
  /** a person starts it; it does not start with the VM */
  onDemand?: true;
  health?: HealthCheck;
  /** number of the signal that ends it, before SIGTERM */
  stop_signal?: number;
}

/** The service that runs an image's program, with the image's user, folder and variables as any other. */
export function imageService({ command, health, stop_signal }: ImageProgram): ServiceDefinition {
  return {
    ...{ command, env: {}, after: [], restart: "on-failure", log_mb: LOG_MB, onDemand: true },
    ...health && { health },
    ...stop_signal !== undefined && { stop_signal },
  };
}
