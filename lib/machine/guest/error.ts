import { SbxError } from "../../base/error/mod.ts";

export function protocolError(cause: unknown): SbxError {
  if (cause instanceof SbxError) return cause;
  return new SbxError("guest.failed", "the guest broke the protocol of its control connection", { cause });
}

export function leftError(): SbxError {
  return new SbxError(
    "vm.suspended",
    "the VM was suspended or forked; its programs go on without their clients",
    {
      hint: "sbx info NAME shows whether it runs; sbx resume NAME brings a suspended one back",
    },
  );
}
