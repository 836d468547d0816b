/** The object that each family adds to an event (docs/design/contracts/05-policy.md §5), as zod. */
import { z } from "zod";

const count = z.int().min(0);

/** Recorded body; `text` is present only in state `text` and never contains a secret. */
export const Body = z.strictObject({
  state: z.enum(["missing", "text", "binary", "redacted"]),
  text: z.string().optional(),
  content_type: z.string().optional(),
  size: count.optional().describe("bytes on the wire"),
  truncated: z.boolean(),
  redaction_reason: z.string().optional(),
});

const Headers = z.record(z.string(), z.array(z.string())).describe("values by lower-case name");

/** A request of git over HTTP (docs/design/contracts/05-policy.md §5, "Git"). */
export const Git = z.strictObject({
  service: z.enum(["git-upload-pack", "git-receive-pack"]).describe("fetch, push"),
  updates: z.array(z.strictObject({
    kind: z.enum(["create", "update", "delete"]),
    new: z.string().describe("object id; zeros for a deleted ref, empty where the request names none"),
    old: z.string().describe("object id; zeros for a new ref, empty where the request names none"),
    ref: z.string(),
  })).describe("refs that a push changes, as ref, old, new and kind (create, update, delete)"),
});

export const Http = z.strictObject({
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
    git: Git.optional(),
  }),
  response: z.strictObject({
    status: z.int(),
    bytes: count,
    headers: Headers,
    body: Body,
    no_close_notify: z.boolean().optional().describe(
      "true: the end of the body is the end of a TLS connection without close_notify, so that bytes may be missing",
    ),
  }).optional(),
});

export const Dns = z.strictObject({
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

export const Mcp = z.strictObject({
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

export const File = z.strictObject({
  activity: z.strictObject({
    operation: z.enum(["read", "write", "create", "delete", "rename", "import", "export"]),
    path: z.string(),
    path_class: z.string(),
    name: z.string(),
    ext: z.string().describe("lower case, without the dot"),
    byte_count: count,
  }),
});

export const Process = z.strictObject({
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
export const Credential = z.strictObject({
  substitution: z.strictObject({
    provider: z.string(),
    credential_ref: z.string(),
    host: z.string().optional(),
    location: z.string().optional().describe("where it was found: a header's name, a path"),
    outcome: z.enum(["captured", "brokered", "injected", "denied", "error"]),
    reason: z.string().optional(),
  }),
});
