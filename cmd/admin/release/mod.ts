/**
 * `sbx-admin release`: releases from a workspace to a tree that web servers serve (docs/guides/releases.md).
 */
import type { CommandGroup } from "../../../lib/base/args/mod.ts";
import { releaseAdd } from "./add.ts";
import { releaseAttest } from "./attest.ts";
import {
  releaseDeprecate,
  releaseInit,
  releaseRevoke,
  releaseSign,
  releaseStage,
  releaseSupport,
} from "./workspace.ts";
import { releasePublish, releaseServe } from "./publish.ts";
import { releaseCheck, releaseVerify } from "./verify.ts";

export const group: CommandGroup = {
  name: "release",
  summary: "make, sign, publish and verify releases",
  subcommands: [
    releaseInit,
    releaseAdd,
    releaseSupport,
    releaseDeprecate,
    releaseRevoke,
    releaseStage,
    releaseSign,
    releaseAttest,
    releaseCheck,
    releasePublish,
    releaseServe,
    releaseVerify,
  ],
};
