import { openBeneath } from "../../../../ffi/host/beneath.ts";
import { readNames } from "../../../../ffi/host/directory.ts";
import type { SbxError } from "../../../base/error/mod.ts";
import { Files } from "../../../base/files/mod.ts";
import { outside, relativePath } from "./path.ts";

/** One VM's workspace. No operation reaches a file outside, whatever the guest does at the same time. */
export class Workspace extends Files {
  constructor(root: string) {
    super(root, { openBeneath, readNames });
  }

  protected override relative(path: string): string {
    return relativePath(path);
  }

  protected override outside(path: string): SbxError {
    return outside(path);
  }

  protected override get place(): string {
    return "the VM's workspace";
  }
}
