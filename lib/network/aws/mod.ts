/**
 * Requests to Amazon's APIs: service, region and operation (docs/design/contracts/05-policy.md §5, "AWS").
 */
export { type AwsEndpoint, awsEndpoint, isRegionOf } from "./endpoint.ts";
export { type AwsReading, type AwsRequest, readAws } from "./operation.ts";
