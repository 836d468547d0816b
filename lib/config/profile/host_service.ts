/**
 * Services of the host that a profile names (docs/design/contracts/04-profiles.md §4, "Services of the
 * host"): a port of its loopback, under a name of its own.
 */
import { z } from "zod";
import known from "./host_services.json" with { type: "json" };
import { HOST_SERVICES_MAX } from "./limit/schema.ts";

/** Usual ports, by the name that stands for them. */
const KNOWN: Readonly<Record<string, { title: string; port: number }>> = known;

/** One label of a host's name, and a port unless the name has a usual one. */
const SERVICE = /^([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?::([1-9][0-9]{0,4}))?$/;
const PORT_MAX = 65_535;

/** A port of the host's loopback, and the first label of the name that VMs have for it. */
export interface HostService {
  name: string;
  port: number;
}

/** Parses `NAME:PORT`, or the name of a service with a usual port. @returns `undefined` for any other text */
function parseHostService(text: string): HostService | undefined {
  const [, name, digits] = SERVICE.exec(text) ?? [];
  if (name === undefined) return undefined;
  const port = digits === undefined ? Object.hasOwn(KNOWN, name) ? KNOWN[name].port : NaN : Number(digits);
  return port <= PORT_MAX ? { name, port } : undefined;
}

const service = z.string().max(128).refine(
  (text) => parseHostService(text) !== undefined,
  `must be NAME:PORT, such as "api:8080", or one of ${Object.keys(KNOWN).join(", ")}`,
);

/** `[host]` of a profile. */
export const HostTable = z.strictObject({
  services: z.array(service).max(HOST_SERVICES_MAX).refine((texts) => {
    const services = hostServices(texts).map(({ name, port }) => `${name}:${port}`);
    return new Set(services).size === services.length;
  }, "must not name a service twice"),
});

/** The services that a profile names, each of which {@linkcode HostTable} has checked. */
export function hostServices(texts: readonly string[]): HostService[] {
  return texts.flatMap((text) => parseHostService(text) ?? []);
}
