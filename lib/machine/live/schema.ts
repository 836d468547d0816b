import { z } from "zod";

/**
 * How a folder of the host is shared with a guest: an argument of the program that guards its file server.
 */
export const LiveShare = z.strictObject({
  dir: z.string().describe("the folder"),
  top: z.array(z.string()).describe("masked names at its top"),
  gitfile: z.string().optional().describe("text of the file that leads to the guest's own repository"),
  withSecrets: z.boolean(),
  made: z.string().describe("file with the identities of the guest's own files that look like secrets"),
});
export type LiveShare = z.infer<typeof LiveShare>;

/** A shared folder in the record of a VM. */
export const LiveRecord = z.strictObject({
  dir: z.string().describe("folder of the host"),
  name: z.string().describe("its name in the workspace"),
  is_repository: z.boolean(),
  with_secrets: z.boolean(),
  top: z.array(z.string()).describe("masked names at its top"),
});
export type LiveRecord = z.infer<typeof LiveRecord>;
