/** Shapes of an OCI image as sbx keeps it: its configuration, program, services and names. */
import { z } from "zod";
import { ARCHES } from "../../base/arch/mod.ts";

/** Hash of the OCI world. */
const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const Blake3 = z.string().regex(/^[0-9a-f]{64}$/);

/** Key of an environment: a hash of its digest, architecture and format. */
export const ENVIRONMENT_KEY = /^[0-9a-f]{32}$/;

const strings = z.array(z.string());

/** A signature that was found right when the image was pulled. */
const Signature = z.strictObject({
  repository: z.string().describe("repository that it is for, and that the image came from"),
  digest: Digest.describe("signed: of the manifest, or of the list of architectures"),
  key: z.string().regex(/^sha256:[0-9a-f]{64}$/).describe("fingerprint of the public key"),
});

/** The part of an image's configuration that sbx uses (`ImageConfig` of the OCI image specification). */
export const EnvironmentConfig = z.strictObject({
  env: z.record(z.string(), z.string()),
  workdir: z.string().optional().describe("absent: /workspace"),
  user: z.string().optional().describe("name or number, and the group after a colon; absent: root"),
  entrypoint: strings.optional(),
  cmd: strings.optional(),
  exposed_ports: strings.optional(),
  healthcheck: z.unknown().optional(),
  stop_signal: z.string().optional(),
  devcontainer: z.string().optional().describe("label devcontainer.metadata, as it is in the image"),
});
export type EnvironmentConfig = z.infer<typeof EnvironmentConfig>;

/** Most words of a program of an image (docs/design/contracts/14-limits.md §14). */
export const PROGRAM_WORDS_MAX = 256;

/** A health check: a program that exits with 0 while the image's own is well. */
export const HealthCheck = z.strictObject({
  command: z.array(z.string()).min(1).max(PROGRAM_WORDS_MAX),
  interval_ms: z.number(),
  timeout_ms: z.number(),
  start_ms: z.number().describe(
    "failures in this time since its start do not count, until one check succeeds",
  ),
  start_interval_ms: z.number().describe("between checks until then"),
  retries: z.int().describe("failures in a row that make it unhealthy"),
});
export type HealthCheck = z.infer<typeof HealthCheck>;

/** The program of an image. */
export const ImageProgram = z.strictObject({
  command: z.array(z.string()).min(1).max(PROGRAM_WORDS_MAX),
  health: HealthCheck.optional(),
  stop_signal: z.int().min(1).max(64).optional().describe(
    "number of the signal that ends it; absent: SIGTERM",
  ),
});
export type ImageProgram = z.infer<typeof ImageProgram>;

/**
 * Most conflicts of a VM and its image that are listed
 * (docs/design/contracts/14-limits.md §14); the guest counts all.
 */
export const CONFLICTS_MAX = 1000;

/** Commands of a `devcontainer.json` that run in the VM, in their order. */
export const DEVCONTAINER_COMMANDS = [
  "onCreateCommand",
  "updateContentCommand",
  "postCreateCommand",
  "postStartCommand",
  "postAttachCommand",
] as const;
export type DevcontainerCommand = (typeof DEVCONTAINER_COMMANDS)[number];

const bounded = (max: number) => z.string().min(1).max(max).regex(/^[^\0]*$/, "must not contain NUL");
const GuestPath = bounded(1024).regex(/^\/[^\n]*$/, "must be an absolute path");

/**
 * Settings of a `devcontainer.json` for a VM, merged with its image's
 * (docs/design/contracts/04-profiles.md §4).
 */
export const DevcontainerSettings = z.strictObject({
  user: bounded(256).optional().describe("user of programs; absent: the image's"),
  folder: GuestPath.describe("folder of the files, and of commands"),
  volumes: z.array(GuestPath).max(100).optional().describe("folders that are made for mounts of volumes"),
  commands: z.array(z.strictObject({
    name: z.enum(DEVCONTAINER_COMMANDS),
    origin: bounded(512).describe("devcontainer.json, or the feature or image that brought it"),
    run: z.array(
      z.strictObject({
        name: bounded(256).optional(),
        command: z.union([bounded(64 * 1024), z.array(bounded(64 * 1024)).min(1).max(1000)]),
      }),
    ).min(1).max(50).describe("run at the same time"),
  })).max(200).optional(),
  ports: z.array(z.strictObject({ port: z.int().min(1).max(65_535), label: bounded(256).optional() })).max(50)
    .optional().describe("forwarded when the VM starts"),
});
export type DevcontainerSettings = z.infer<typeof DevcontainerSettings>;

/** `environment.json`: a root file system made of an OCI image. */
export const Environment = z.strictObject({
  schema: z.literal("sbx.environment.v1"),
  key: z.string().regex(ENVIRONMENT_KEY).describe("hash of digest, architecture and format"),
  arch: z.enum(ARCHES),
  reference: z.string().describe("as it was first asked for"),
  digest: Digest.describe("digest of the manifest for this architecture"),
  created_at: z.iso.datetime(),
  config: EnvironmentConfig,
  rootfs: z.strictObject({ hash: Blake3, size: z.int().min(1) }),
  obom: z.strictObject({ hash: Blake3, size: z.int().min(1) }),
  provenance: z.strictObject({
    index_digest: Digest.optional().describe("digest of the list of architectures that the reference named"),
    config_digest: Digest,
    layers: z.array(z.strictObject({ digest: Digest, size: z.int().min(0) })),
    builder: z.string(),
    puller: z.string(),
    signatures: z.array(Signature).optional(),
    build: z.strictObject({
      key: z.string().regex(/^[0-9a-f]{32}$/).describe("hash of Dockerfile, context and options"),
      vm: z.uuid().describe("the VM that built it, whose record has its downloads"),
      dockerfile: z.string(),
      target: z.string().optional(),
      args: strings.describe("names of build arguments"),
      bases: z.array(
        z.strictObject({ reference: z.string(), digest: Digest, signature: Signature.optional() }),
      ).describe("as the VM reports them"),
    }).optional().describe("build of an image from a Dockerfile"),
  }),
});
export type Environment = z.infer<typeof Environment>;

/** The target of a reference, as it was last resolved. */
export const EnvironmentName = z.strictObject({
  schema: z.literal("sbx.environment_name.v1"),
  reference: z.string(),
  arch: z.enum(ARCHES),
  key: Environment.shape.key,
  resolved_at: z.iso.datetime(),
});
export type EnvironmentName = z.infer<typeof EnvironmentName>;
