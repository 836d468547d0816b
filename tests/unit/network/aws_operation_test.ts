/**
 * Hosts of Amazon's APIs, and the operations of requests to them
 * (docs/design/contracts/05-policy.md §5, "AWS").
 */
import { assertEquals } from "@std/assert";
import { awsEndpoint, isRegionOf, readAws } from "../../../lib/network/aws/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";

/** host → service, region, bucket */
const HOSTS: Record<string, [service: string, region?: string, bucket?: string] | undefined> = {
  "s3.amazonaws.com": ["s3"],
  "s3.us-east-1.amazonaws.com": ["s3", "us-east-1"],
  "s3-us-west-2.amazonaws.com": ["s3", "us-west-2"],
  "bucket.s3-us-west-2.amazonaws.com": ["s3", "us-west-2", "bucket"],
  "my.bucket.s3.eu-central-1.amazonaws.com": ["s3", "eu-central-1", "my.bucket"],
  "bucket.s3.dualstack.us-east-1.amazonaws.com": ["s3", "us-east-1", "bucket"],
  "bucket.s3-accelerate.amazonaws.com": ["s3", undefined, "bucket"],
  "bucket.s3-fips.us-gov-west-1.amazonaws.com": ["s3", "us-gov-west-1", "bucket"],
  "dynamodb.s3.us-east-1.amazonaws.com": ["s3", "us-east-1", "dynamodb"],
  "123456789012.s3-control.us-east-1.amazonaws.com": ["s3", "us-east-1"],
  "b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com": [
    "s3express",
    "us-east-1",
    "b--use1-az4--x-s3",
  ],
  "eu-west-1.s3.amazonaws.com": ["s3", undefined, "eu-west-1"],
  "mine.zz-other-1.s3.amazonaws.com": ["s3", undefined, "mine.zz-other-1"],
  "mine.zz-other-1.s3-us-west-2.amazonaws.com": ["s3", "us-west-2", "mine.zz-other-1"],
  "sts.amazonaws.com": ["sts"],
  "sts.cn-north-1.amazonaws.com.cn": ["sts", "cn-north-1"],
  "email.eu-west-1.amazonaws.com": ["ses", "eu-west-1"],
  "api.ecr.us-east-1.amazonaws.com": ["ecr", "us-east-1"],
  "streams.dynamodb.us-east-1.amazonaws.com": ["dynamodb", "us-east-1"],
  "bedrock-runtime.us-west-2.amazonaws.com": ["bedrock", "us-west-2"],
  "bedrock-runtime-fips.us-west-2.amazonaws.com": ["bedrock", "us-west-2"],
  "search-x.us-east-1.es.amazonaws.com": ["es", "us-east-1"],
  "abc123.execute-api.us-east-1.amazonaws.com": ["execute-api", "us-east-1"],
  "lambda.us-east-1.api.aws": ["lambda", "us-east-1"],
  "mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com": ["s3", undefined, "mfzwi23gnjvgw.mrap"],
  "s3-global.amazonaws.com": undefined,
  "mrap.accesspoint.s3-global.amazonaws.com": undefined,
  "bucket.s3-global.amazonaws.com": undefined,
  "123456789012.cloudfront-kvs.global.api.aws": ["cloudfront-keyvaluestore"],
  "amazonaws.com": undefined,
  "evilamazonaws.com": undefined,
  "s3.amazonaws.com.evil.example": undefined,
  "s3..amazonaws.com": undefined,
};

Deno.test("a host says its service, region and bucket, and hosts that look alike are not Amazon's", () => {
  for (const [host, expected] of Object.entries(HOSTS)) {
    const endpoint = awsEndpoint(host);
    const found = endpoint && [endpoint.services[0], endpoint.region, endpoint.bucket];
    assertEquals(found, expected && [expected[0], expected[1], expected[2]], host);
  }
});

Deno.test("a global host is of its partition's region, and S3's of every one", () => {
  const fits = (host: string, region: string) => isRegionOf(host, awsEndpoint(host)!, region);
  assertEquals([fits("iam.amazonaws.com", "us-east-1"), fits("iam.amazonaws.com", "eu-west-1")], [
    true,
    false,
  ]);
  assertEquals([fits("s3.amazonaws.com", "eu-west-1"), fits("s3.amazonaws.com", "x")], [true, false]);
  assertEquals(fits("sts.eu-west-1.amazonaws.com", "us-east-1"), false);
});

/** host and request → operation, or that there is a fault */
const REQUESTS: [
  host: string,
  request: string,
  expected: string | undefined,
  headers?: Header[],
  body?: string,
][] = [
  ["b.s3.amazonaws.com", "GET /k", "s3:GetObject b k"],
  ["s3.amazonaws.com", "GET /b/k%2F%20x?versionId=1&x-id=GetObject", "s3:GetObject b k/ x"],
  ["s3.amazonaws.com", "GET /b?list-type=2", "s3:ListObjectsV2 b"],
  ["s3.amazonaws.com", "GET /", "s3:ListBuckets"],
  ["s3.amazonaws.com", "PUT /b/k", "s3:CopyObject b k", [["x-amz-copy-source", "/b/j"]]],
  ["s3.amazonaws.com", "PUT /b/k?partNumber=1&uploadId=x", "s3:UploadPart b k"],
  ["s3.amazonaws.com", "GET /b/k?partNumber=1", "s3:GetObject b k"],
  ["s3.amazonaws.com", "POST /b/?delete", "s3:DeleteObjects b"],
  ["s3.amazonaws.com", "PUT /b?%61cl", "s3:PutBucketAcl b"],
  ["s3.amazonaws.com", "GET /b/k?acl&tagging", undefined],
  ["s3.amazonaws.com", "GET /b/k?futureOperation", undefined],
  ["s3.amazonaws.com", "PATCH /b/k", undefined],
  ["s3.amazonaws.com", "GET /b/%FF", undefined],
  ["s3.amazonaws.com", "GET //b/k", undefined],
  ["s3.amazonaws.com", "DELETE /b%2Fk", undefined],
  ["s3.amazonaws.com", "PUT /b/k?X-Amz-Copy-Source=%2Fb%2Fj", "s3:CopyObject b k"],
  ["1.s3-control.us-east-1.amazonaws.com", "PUT /v20180820/accesspoint/x", undefined],
  ["s3-control-fips.us-east-1.amazonaws.com", "DELETE /v20180820/accesspoint/x", undefined],
  ["dynamodb.us-east-1.amazonaws.com", "POST /", "dynamodb:GetItem", [[
    "x-amz-target",
    "DynamoDB_20120810.GetItem",
  ]]],
  ["sts.amazonaws.com", "POST /", "sts:AssumeRole", [], "Version=1&Action=AssumeRole"],
  ["sts.amazonaws.com", "POST /", "sts:AssumeRole", [], "%41ction=AssumeRole"],
  ["sts.amazonaws.com", "GET /?Action=GetCallerIdentity", "sts:GetCallerIdentity"],
  ["sts.amazonaws.com", "POST /?Action=GetCallerIdentity", undefined, [], "Action=AssumeRole"],
  ["sts.amazonaws.com", "POST /", undefined, [], "Action=GetCallerIdentity&Action=AssumeRole"],
  ["sts.amazonaws.com", "POST /?Action=GetCallerIdentity", undefined, [], "%41ction=AssumeRole"],
  [
    "sts.amazonaws.com",
    "POST /",
    undefined,
    [["x-amz-target", "A.GetCallerIdentity"]],
    "%41ction=AssumeRole",
  ],
  ["sts.amazonaws.com", "POST /service/A/operation/GetCallerIdentity", undefined, [], "%41ction=AssumeRole"],
  [
    "sqs.us-east-1.amazonaws.com",
    "POST /",
    "sqs:SendMessage",
    [["x-amz-target", "AmazonSQS.SendMessage"]],
    "{}",
  ],
  ["sts.amazonaws.com", "POST /", undefined],
  [
    "monitoring.us-east-1.amazonaws.com",
    "POST /service/GraniteServiceVersion20100801/operation/PutMetricData",
    "monitoring:PutMetricData",
  ],
  [
    "bedrock-runtime.us-east-1.amazonaws.com",
    "POST /model/a.b%3A0/converse-stream",
    "bedrock:ConverseStream",
  ],
];

/** `x-amz-copy-source` → bucket and key */
const SOURCES: Record<string, [bucket: string, key: string] | undefined> = {
  "/from/a/b": ["from", "a/b"],
  "from/a%20b%3Fc": ["from", "a b?c"],
  "from%2Fa%2Fb?versionId=x.y": ["from", "a/b"],
  "from/a//b": ["from", "a//b"],
  "from/a/object/b": ["from", "a/object/b"],
  "arn:aws:s3:us-west-2:123456789012:accesspoint/point/object/a/object/b": [
    "arn:aws:s3:us-west-2:123456789012:accesspoint/point",
    "a/object/b",
  ],
  "from": undefined,
  "/from/": undefined,
  "//from/a": undefined,
  "from//a": undefined,
  "from/a+b": undefined,
  "from/a?other=1": undefined,
  "from/a?versionId=1?versionId=2": undefined,
  "from/a?versionId=1&b=2": undefined,
  "from/%FF": undefined,
};

Deno.test("the source of a copy is known, in a header or a query, and an ambiguous one is a fault", () => {
  const read = (target: string, headers: Header[]) => {
    const request = { method: "PUT", target, headers, body: new Uint8Array(), isWhole: true };
    return readAws(awsEndpoint("s3.amazonaws.com")!, request);
  };
  for (const [source, expected] of Object.entries(SOURCES)) {
    for (
      const { field, fault } of [
        read("/to/k", [["x-amz-copy-source", source]]),
        read(`/to/k?X-Amz-Copy-Source=${encodeURIComponent(source)}`, []),
      ]
    ) {
      const { action, source_bucket, source_key } = field;
      assertEquals(action, "s3:CopyObject", source);
      assertEquals(source_bucket === undefined ? undefined : [source_bucket, source_key], expected, source);
      assertEquals(fault === undefined, expected !== undefined, source);
    }
  }
  const twice = read("/to/k?x-amz-copy-source=from%2Fa", [["x-amz-copy-source", "other/a"]]);
  assertEquals([twice.field.source_bucket, typeof twice.fault], [undefined, "string"]);
  assertEquals(read("/to/k", [["x-amz-meta-a", "b"]]).field.source_bucket, undefined);
});

Deno.test("an operation is known from header, form, query or path, and ambiguous ones are not", () => {
  for (const [host, request, expected, headers = [], body = ""] of REQUESTS) {
    const [method, target] = request.split(" ");
    const bytes = new TextEncoder().encode(body);
    const { field: { action, bucket, key }, fault } = readAws(
      awsEndpoint(host)!,
      { method, target, headers, body: bytes, isWhole: true },
    );
    const found = [action, bucket, key].filter((each) => each !== undefined).join(" ");
    assertEquals(fault === undefined ? found : undefined, expected, `${host} ${request}`);
  }
});

Deno.test("a service without named operations has no action and no fault", () => {
  const { field, fault } = readAws(awsEndpoint("lambda.us-east-1.amazonaws.com")!, {
    method: "POST",
    target: "/2015-03-31/functions/f/invocations",
    headers: [],
    body: new Uint8Array(),
    isWhole: true,
  });
  assertEquals([field, fault], [{ service: "lambda", region: "us-east-1" }, undefined]);
});
