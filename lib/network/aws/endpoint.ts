/** Hosts of Amazon's APIs: which service and region each stands for. */
import { memoize } from "../../base/memo/mod.ts";
import ENDPOINTS_JSON from "./endpoints.json" with { type: "json" };

/**
 * Names by which services sign where they differ from the last label of their hosts, by the labels before the
 * region; `*.` stands for any more labels. Of botocore's service models.
 */
const SIGNING_NAMES: Record<string, readonly string[]> = ENDPOINTS_JSON;

/** A host of Amazon's APIs. */
export interface AwsEndpoint {
  /** names of the service in signatures; the first is the usual one */
  services: readonly string[];
  /** absent for hosts that stand for several regions */
  region?: string;
  /** bucket that an S3 host names */
  bucket?: string;
  /** the host of S3's control API, whose paths are neither buckets nor keys */
  isControl?: true;
}

/** Suffixes of hosts that Amazon alone names, and the region of those that name none. */
const PARTITIONS: readonly { suffix: string; region: RegExp }[] = [
  { suffix: ".amazonaws.com.cn", region: /^cn-north(?:west)?-1$/ },
  { suffix: ".amazonaws.com", region: /^(?:us-east-1|us-gov-west-1)$/ },
  { suffix: ".api.aws", region: /^us-east-1$/ },
];
const REGION = /^[a-z]{2}(?:-[a-z]+){1,2}-\d{1,2}$/;
/** Label of an S3 host, with the region of older hosts. */
const S3 =
  /^s3(?:-(fips|accelerate|external-1|global|accesspoint|accesspoint-fips|control|control-fips|outposts|outposts-fips|object-lambda|object-lambda-fips|[a-z]{2}(?:-[a-z]+){1,2}-\d{1,2})|(express-[a-z0-9-]+))?$/;

/** Reads a host; `undefined` for one that is no API of Amazon's. @param host canonical, without port */
export const awsEndpoint: (host: string) => AwsEndpoint | undefined = memoize((host: string) => {
  const name = host.toLowerCase().replace(/\.$/, "");
  const partition = PARTITIONS.find(({ suffix }) => name.endsWith(suffix));
  if (!partition) return undefined;
  const labels = name.slice(0, -partition.suffix.length).split(".");
  if (labels.some((label) => label === "")) return undefined;
  const region = takeRegion(labels);
  if (labels.at(-1) === "dualstack") labels.pop();
  const s3 = S3.exec(labels.at(-1) ?? "");
  if (s3) return s3Endpoint(labels.slice(0, -1), s3, region);
  const plain = labels.map((label) => label.replace(/-fips$|^fips-/, "")).filter((label) => label !== "fips");
  if (plain.length === 0) return undefined;
  return { services: signingNames(plain), ...(region !== undefined && { region }) };
});

/** True if a signature of this region is for the host. */
export function isRegionOf(host: string, endpoint: AwsEndpoint, region: string): boolean {
  if (endpoint.region !== undefined) return endpoint.region === region;
  // The global S3 hosts answer for the buckets of every region.
  if (endpoint.services[0] === "s3") return REGION.test(region);
  return PARTITIONS.find(({ suffix }) => host.endsWith(suffix))?.region.test(region) ?? false;
}

/**
 * Takes the region out of labels: the last one, or the one before the service of `es` and `queue`. In front
 * of S3 stands a bucket, which anyone may name as a region.
 */
function takeRegion(labels: string[]): string | undefined {
  const places = [labels.length - 1, ...(S3.test(labels.at(-1) ?? "") ? [] : [labels.length - 2])];
  for (const at of places) {
    if (at >= 0 && labels.length > 1 && REGION.test(labels[at])) return labels.splice(at, 1)[0];
  }
}

function s3Endpoint(
  before: readonly string[],
  [, variant = "", express]: RegExpExecArray,
  region: string | undefined,
): AwsEndpoint | undefined {
  const own = REGION.test(variant) ? variant : undefined;
  const kind = variant.replace(/-fips$/, "");
  const service = express ? "s3express" : ["outposts", "object-lambda"].includes(kind) ? `s3-${kind}` : "s3";
  // Access points of several regions, and nothing else:
  // https://ALIAS.mrap.accesspoint.s3-global.amazonaws.com.
  if (kind === "global") {
    const isPoint = before.length > 2 && before.slice(-2).join(".") === "mrap.accesspoint";
    return isPoint ? { services: ["s3"], bucket: before.slice(0, -1).join(".") } : undefined;
  }
  const isBucket = before.length > 0 && kind !== "control" && !express?.startsWith("express-control");
  return {
    services: [service],
    ...((region ?? own) !== undefined && { region: region ?? own }),
    ...(isBucket && { bucket: before.join(".") }),
    ...(kind === "control" && { isControl: true as const }),
  };
}

function signingNames(labels: readonly string[]): readonly string[] {
  const last = labels.at(-1)!;
  const keys = [
    labels.join("."),
    ...(labels.length > 1 ? [labels.slice(-2).join("."), `*.${last}`] : []),
    last,
  ];
  const key = keys.find((each) => Object.hasOwn(SIGNING_NAMES, each));
  return key === undefined ? [last] : SIGNING_NAMES[key];
}
