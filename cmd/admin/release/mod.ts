/**
 * `sbx-admin release`: releases from a workspace to a tree that web servers serve (docs/guides/releases.md).
 */
import type { CommandGroup } from "../../../lib/base/args/mod.ts";
import { releaseAdd } from "./add.ts";
import { releaseAttest } from "./attest.ts";
import { releaseCheck } from "./check.ts";
import { releaseInit } from "./init.ts";
import { releaseDeprecate, releaseRevoke, releaseSupport } from "./mark.ts";
import { releasePublish } from "./publish.ts";
import { releaseServe } from "./serve.ts";
import { releaseSign } from "./sign.ts";
import { releaseStage } from "./stage.ts";
import { releaseVerify } from "./verify.ts";

export const RELEASE: CommandGroup = {
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
