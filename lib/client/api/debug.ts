/** The debug report, `sbx.debug.v2` (docs/design/contracts/11-debug-report.md §11). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

const RuntimeFile = z.strictObject({
  path: z.string(),
  exists: z.boolean(),
  size_bytes: z.int().min(0),
  contents: z.string().nullable().describe("null for the gateway's token, always"),
  error: z.string().nullable(),
});

const Disk = z.strictObject({
  path: z.string(),
  exists: z.boolean(),
  total_bytes: z.int().min(0),
  available_bytes: z.int().min(0),
});

const HostBinary = z.strictObject({
  path: z.string(),
  exists: z.boolean(),
  size_bytes: z.int().min(0),
  mode_octal: z.string(),
  executable: z.boolean(),
  hash: z.string().describe("BLAKE3; empty where the file is missing or takes too long to read"),
});

const AssetState = z.strictObject({
  path: z.string(),
  exists: z.boolean(),
  manifest_hash: z.string(),
  manifest_size_bytes: z.int().min(0),
  actual_hash: z.string(),
  size_bytes: z.int().min(0),
  actual_hash_matches_manifest: z.boolean(),
});

export const DebugReport = z.strictObject({
  schema: z.literal("sbx.debug.v2"),
  redacted: z.literal(true),
  generated_at: z.iso.datetime(),
  version: z.strictObject({
    sbx_version: z.string(),
    build_hash: z.string(),
    build_ts: z.string().describe("empty in a source tree"),
    platform: z.string(),
  }),
  paths: z.strictObject({ sbx_home: z.string(), run_dir: z.string(), assets_dir: z.string() }),
  runtime: z.strictObject({
    running_vm_count: z.int().min(0),
    total_vm_count: z.int().min(0),
    service_pid_file: RuntimeFile,
    gateway_pid_file: RuntimeFile,
    gateway_port_file: RuntimeFile,
    gateway_token_file: RuntimeFile,
  }),
  host: z.strictObject({ os: z.string(), arch: z.string(), family: z.string() }),
  disk: z.strictObject({ home: Disk, run: Disk, assets: Disk }),
  install: z.strictObject({
    bin_dir: z.string(),
    current_exe: z.string(),
    service_unit_path: z.string().describe("empty where no unit is installed"),
  }),
  host_binaries: z.record(z.string(), HostBinary),
  processes: z.array(z.strictObject({
    name: z.string(),
    pid: z.int().min(0),
    running: z.boolean(),
    executable_path: z.string(),
    executable_hash: z.string(),
  })),
  status: z.strictObject({
    issues: z.array(z.string()),
    defunct_sessions: z.array(z.strictObject({ name: z.string(), last_error: z.string() })),
  }),
  setup: z.strictObject({
    path: z.string(),
    present: z.boolean(),
    parse_error: z.string().nullable(),
    install_completed: z.boolean(),
    completed_steps: z.array(z.string()),
    vm_verified: z.boolean(),
    providers_done: z.boolean(),
  }),
  assets: z.strictObject({
    manifest: z.strictObject({
      path: z.string(),
      exists: z.boolean(),
      hash: z.string(),
      signature: z.string().describe("origin of the manifest, and the signature on it"),
    }),
    asset_version_for_binary: z.string(),
    files: z.strictObject({ kernel: AssetState, initrd: AssetState, rootfs: AssetState }),
  }),
  logs: z.array(z.strictObject({
    name: z.string(),
    path: z.string(),
    exists: z.boolean(),
    size_bytes: z.int().min(0),
    truncated: z.boolean(),
    tail: z.array(z.string()),
  })),
}).openapi("DebugReport");
export type DebugReport = z.infer<typeof DebugReport>;

export const debugRoutes = {
  report: createRoute({
    method: "get",
    path: "/debug/report",
    tags: ["system"],
    responses: answers("report on this installation, redacted: it can be sent to anyone", DebugReport),
  }),
};
