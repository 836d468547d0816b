/**
 * Normalized security event, schema_version 1 (docs/design/contracts/05-policy.md §5): the source of the
 * types, the field catalogue and the JSON Schema. Importing this file loads zod, for files and user input;
 * `mod.ts` does not.
 */
import { z } from "zod";
import { EVENT_FAMILIES } from "./field.ts";

// The `common` object of every event.

/** Event types; the family is the part before the dot. */
export const EVENT_TYPES = [
  "http.request",
  "dns.query",
  "db.statement",
  "sign.request",
  "mcp.tool_call",
  "mcp.tool_list",
  "mcp.event",
  "model.call",
  "file.activity",
  "process.exec",
  "process.exit",
  "credential.substitution",
] as const;

const count = z.int().min(0);

/** Guest process that caused the event, if known. */
const ProcessRef = z.strictObject({
  pid: count,
  ppid: count,
  executable: z.string(),
  command: z.string(),
  cwd: z.string(),
  container: z.strictObject({
    id: z.string(),
    name: z.string().optional(),
    image: z.string().optional(),
  }).optional(),
});

const Common = z.strictObject({
  event_id: z.string().regex(/^[0-9a-f]{12}$/, "an event id is 12 hex characters"),
  event_type: z.enum(EVENT_TYPES),
  session_id: z.string(),
  vm_id: z.string(),
  profile_id: z.string(),
  profile_revision: z.string(),
  user_id: z.string().optional(),
  timestamp_unix_ms: count,
  sequence: count.describe("place in the session's ledger, from 1; 0 until the ledger has it"),
  source_engine: z.enum(["network", "file", "process", "mcp", "model"]),
  enforceability: z.enum(["inline_blockable", "observe_only"]),
  actor: z.enum(["vm", "host"]),
  process: ProcessRef.optional(),
  trace_id: z.string().optional(),
  labels: z.record(z.string(), z.string()),
});

// The object that each family adds to an event.

/** Recorded body; `text` is present only in state `text` and never contains a secret. */
const Body = z.strictObject({
  state: z.enum(["missing", "text", "binary", "redacted"]),
  text: z.string().optional(),
  content_type: z.string().optional(),
  size: count.optional().describe("bytes on the wire"),
  truncated: z.boolean(),
  redaction_reason: z.string().optional(),
});

const Headers = z.record(z.string(), z.array(z.string())).describe("values by lower-case name");

/** A git request over HTTP or SSH (docs/design/contracts/05-policy.md §5, "Git"). */
const Git = z.strictObject({
  service: z.enum(["git-upload-pack", "git-receive-pack"]).describe("fetch, push"),
  updates: z.array(z.strictObject({
    kind: z.enum(["create", "update", "delete"]),
    new: z.string().describe("object id; zeros for a deleted ref, empty where the request names none"),
    old: z.string().describe("object id; zeros for a new ref, empty where the request names none"),
    ref: z.string(),
  })).describe("refs that a push changes, as ref, old, new and kind (create, update, delete)"),
});

/** A request to one of Amazon's APIs (docs/design/contracts/05-policy.md §5, "AWS"). */
const Aws = z.strictObject({
  action: z.string().optional().describe(
    "service:Operation, where the request names one, such as s3:GetObject",
  ),
  bucket: z.string().optional(),
  key: z.string().optional().describe("key of an object, decoded"),
  region: z.string().optional(),
  service: z.string().describe("as in signatures"),
  source_bucket: z.string().optional().describe("bucket, or ARN of an access point, that a copy is from"),
  source_key: z.string().optional().describe("key of the object that a copy is from, decoded"),
});

/** A call of gRPC or gRPC-Web (docs/design/contracts/05-policy.md §5, "gRPC"). */
const Grpc = z.strictObject({
  message: z.record(z.string(), z.json()).optional().describe(
    "fields of the client's first message, by their names in the .proto; for rules of profiles with descriptors of the service, and not recorded",
  ),
  message_type: z.string().optional().describe(
    "type of the message that rules read, such as google.pubsub.v1.PublishRequest; absent: none was read",
  ),
  method: z.string(),
  service: z.string().describe("with its package, such as google.pubsub.v1.Publisher"),
  timeout_ms: count.optional().describe("deadline of the call"),
  web: z.boolean().optional().describe("true: gRPC-Web"),
});

/** The messages of a call, and its end. */
const GrpcResult = z.strictObject({
  request_bytes: count.describe("bytes of the client's messages"),
  requests: count.describe("number of the client's messages"),
  response_bytes: count.describe("bytes of the server's messages"),
  responses: count.describe("number of the server's messages"),
  status: z.int().min(0).optional().describe(
    "status of the call, 0 for OK; absent: the call ended without one",
  ),
});

/** A message of a WebSocket; `text` never contains a secret. */
const SocketMessage = z.strictObject({
  from: z.enum(["guest", "upstream"]),
  at_ms: count.describe("since the WebSocket opened"),
  size: count.describe("bytes, without compression"),
  state: z.enum(["missing", "text", "binary", "redacted"]),
  text: z.string().optional(),
  truncated: z.boolean(),
  redaction_reason: z.string().optional(),
});

/** A command of a guest over SSH (docs/design/contracts/05-policy.md §5, "SSH"). */
const Ssh = z.strictObject({
  command: z.string().describe("command line, or name of the subsystem; empty for a shell"),
  kind: z.enum(["git", "exec", "sftp", "shell", "subsystem"]),
  user: z.string().describe("user that the host logs in as"),
});

const Http = z.strictObject({
  request: z.strictObject({
    method: z.string(),
    scheme: z.string(),
    host: z.string().describe("canonical, without port"),
    port: z.int().min(0).max(65535),
    path: z.string().describe("canonical, as it is sent"),
    raw_path: z.string().optional().describe("path as the client wrote it, where that differs from `path`"),
    query: z.string(),
    url: z.string(),
    path_class: z.string(),
    bytes: count,
    headers: Headers,
    body: Body,
    aws: Aws.optional(),
    git: Git.optional(),
    grpc: Grpc.optional(),
    ssh: Ssh.optional(),
  }),
  response: z.strictObject({
    status: z.int(),
    address: z.string().optional().describe(
      "IP address that policy decided on and the connection was made to; absent: sbx or the cache answered",
    ),
    bytes: count,
    cache_digest: z.string().optional().describe(
      "digest of the copy in the shared cache that answered; absent: the upstream did",
    ),
    headers: Headers,
    body: Body,
    grpc: GrpcResult.optional(),
    messages: z.array(SocketMessage).optional().describe(
      "messages of a WebSocket that is over, as at_ms, from (guest, upstream), size, state, text and truncated; absent: network.websocket_messages is off",
    ),
    messages_missing: count.optional().describe("messages of the WebSocket that had no room in the event"),
    no_close_notify: z.boolean().optional().describe(
      "true: the end of the body is the end of a TLS connection without close_notify, so that bytes may be missing",
    ),
  }).optional(),
});

const Dns = z.strictObject({
  request: z.strictObject({
    qname: z.string().describe("lower case, without the last dot"),
    qtype: z.string(),
    transport: z.string().describe("udp, tcp"),
  }),
  response: z.strictObject({
    rcode: z.string(),
    answers: z.array(z.string()).describe("addresses and names, as text"),
  }).optional(),
});

/**
 * A statement for a database that the host logs in to (docs/design/contracts/05-policy.md §5, "Databases").
 */
const Db = z.strictObject({
  request: z.strictObject({
    system: z.enum(["postgres", "mysql", "redis"]),
    host: z.string().describe("canonical, without port"),
    port: z.int().min(0).max(65535),
    user: z.string().describe("user that the host logs in as; empty where the server has one only"),
    name: z.string().describe(
      "database that it is for; of MySQL, the one that USE chose last, and of USE its own",
    ),
    kind: z.enum(["read", "write", "ddl", "admin"]).describe(
      "the strongest thing that it may do, by its syntax; anything uncertain counts as stronger",
    ),
    command: z.string().describe("first word, upper case; of several statements, of the strongest"),
    statement: z.string().describe("the text with ? in place of each literal; cut after 2,048 characters"),
    prepared: z.string().optional().describe("name of the prepared statement that it makes, runs or ends"),
    bytes: count.describe("length of its text"),
  }),
  response: z.strictObject({
    error: z.string().optional().describe("the server's code of an error, such as SQLSTATE"),
    bytes: count.describe("bytes of the answer on the wire"),
  }).optional(),
});

/** A commit or tag that the host is to sign (docs/design/contracts/05-policy.md §5, "Signatures"). */
const Sign = z.strictObject({
  request: z.strictObject({
    kind: z.enum(["commit", "tag"]),
    format: z.enum(["ssh", "openpgp"]),
    signer: z.string().describe("fingerprint of the key"),
    subject: z.string().describe("first line of the message; cut after 256 characters"),
    author: z.string().describe("name and email address; of a tag, its tagger"),
    author_email: z.string(),
    committer: z.string().describe("name and email address; of a tag, its tagger"),
    committer_email: z.string(),
    own: z.boolean().describe("true: both email addresses are ones that the key was added for"),
    object: z.string().describe("tree of a commit, object of a tag"),
    parents: z.array(z.string()),
    tag: z.string().optional().describe("name of a tag"),
    digest: z.string().describe("SHA-256 of the bytes that are signed, in hex"),
    bytes: count,
  }),
});

const Mcp = z.strictObject({
  request: z.strictObject({
    method: z.string(),
    server_name: z.string(),
    tool_name: z.string(),
    namespaced_tool_name: z.string(),
    arguments: z.record(z.string(), z.json()),
  }),
  response: z.strictObject({
    is_error: z.boolean(),
    content: z.array(z.json()),
  }).optional(),
});

export const Model = z.strictObject({
  request: z.strictObject({
    provider: z.string(),
    api_family: z.string(),
    model: z.string(),
    stream: z.boolean(),
    operation: z.string(),
    messages_count: count,
    tools_count: count,
    body: Body,
  }),
  response: z.strictObject({
    status: z.int(),
    stop_reason: z.string().optional(),
    input_tokens: count.optional(),
    cached_input_tokens: count.optional().describe("of `input_tokens`, those read from a cache"),
    output_tokens: count.optional(),
    estimated_cost_micros: count.optional(),
    price_basis: z.enum(["family", "dearest", "unchecked"]).optional().describe(
      "whose price the cost is of, where the model has none: its family's, or the dearest of its provider; or that no source has its own",
    ),
    tool_calls: z.array(z.strictObject({
      name: z.string(),
      arguments: z.json().optional(),
    })),
  }).optional(),
});

const File = z.strictObject({
  activity: z.strictObject({
    operation: z.enum(["read", "write", "create", "delete", "rename", "import", "export"]),
    path: z.string(),
    path_class: z.string(),
    name: z.string(),
    ext: z.string().describe("lower case, without the dot"),
    byte_count: count,
  }),
});

const Process = z.strictObject({
  activity: z.strictObject({
    operation: z.enum(["exec", "exit"]),
    executable: z.string(),
    command: z.string(),
    argv: z.array(z.string()),
    cwd: z.string(),
    exit_code: z.int().optional(),
  }),
});

/**
 * Action of the credential broker on one secret (docs/design/contracts/09-credentials.md §9), named by ref
 * only.
 */
const Credential = z.strictObject({
  substitution: z.strictObject({
    provider: z.string(),
    credential_ref: z.string(),
    host: z.string().optional(),
    location: z.string().optional().describe("where it was found: a header's name, a path"),
    outcome: z.enum(["captured", "brokered", "injected", "denied", "error"]),
    reason: z.string().optional(),
  }),
});

const shape = {
  schema_version: z.literal(1),
  common: Common,
  http: Http.optional(),
  dns: Dns.optional(),
  db: Db.optional(),
  sign: Sign.optional(),
  mcp: Mcp.optional(),
  model: Model.optional(),
  file: File.optional(),
  process: Process.optional(),
  credential: Credential.optional(),
};

/** Complete event: all required fields, and only the object of its own family. */
export const EventSchema = z.strictObject(shape).superRefine((event, context) => {
  const eventFamily = event.common.event_type.split(".")[0];
  for (const family of EVENT_FAMILIES) {
    const isPresent = event[family] !== undefined;
    if (isPresent === (family === eventFamily)) continue;
    const message = isPresent ? `not allowed in a ${event.common.event_type} event` : "is missing";
    context.addIssue({ code: "custom", path: [family], message });
  }
});

export type Event = z.infer<typeof EventSchema>;

/** Partial event with at least its type. */
export type PolicyContext =
  & { schema_version: 1; common: Pick<Event["common"], "event_type"> & DeepPartial<Event["common"]> }
  & DeepPartial<Omit<Event, "common" | "schema_version">>;

/**
 * Partial event for rule tests and detection fixtures: only `common.event_type` is required.
 * Unknown fields are still rejected.
 */
export const PolicyContextSchema = z.strictObject({
  ...(makePartial(z.strictObject(shape)) as z.ZodObject).shape,
  schema_version: z.literal(1).default(1),
  common: (makePartial(Common) as z.ZodObject).extend({ event_type: Common.shape.event_type }),
}) as unknown as z.ZodType<PolicyContext>;

type DeepPartial<T> = T extends readonly unknown[] ? T
  : T extends object ? { [K in keyof T]?: DeepPartial<T[K]> }
  : T;

/** Makes every field optional, at any depth. */
function makePartial(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional) return makePartial(schema.unwrap());
  if (!(schema instanceof z.ZodObject)) return schema;
  return z.strictObject(
    Object.fromEntries(
      Object.entries(schema.shape).map((
        [key, field],
      ) => [key, z.optional(makePartial(field as z.core.$ZodType))]),
    ),
  );
}
