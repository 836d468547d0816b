import type { SetRequest, VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { IMAGE_OPTION, pullNamedImage } from "./image_option.ts";
import { CREDENTIAL_OPTION, credentialsOf, DISK_OPTION, diskOf, formatRam, sizeOf } from "./new_vm.ts";

/** Size and image of a VM from its next start. */
function changed(
  { cpus, ram_mb, disk, image_reference, profile_id }: VmSummary,
  change: SetRequest,
): string[] {
  const hasImage = change.image !== undefined || change.undo_image;
  const image = image_reference ?? `the image of profile ${profile_id}`;
  return [count(cpus, "CPU"), formatRam(ram_mb), `${disk.size_gb} GiB of disk`, ...hasImage ? [image] : []];
}

function formatKeys(credentials: NonNullable<SetRequest["credentials"]>): string {
  return Object.entries(credentials).map(([provider, label]) =>
    label === null ? `the key of ${provider} added last` : `the key "${label}" of ${provider}`
  ).join(", ");
}

export const command: Command = {
  name: "set",
  usage:
    "NAME [--cpus N] [--ram SIZE] [--disk SIZE] [--image IMAGE | --undo-image] [--credential PROVIDER=LABEL] " +
    "[--undo-credential PROVIDER] [--json]",
  summary: "change size or image of a stopped VM, or the keys of any",
  notes: [
    "Keys apply at once: in a running VM new requests and programs use them. The rest applies from its next start. A disk grows and never shrinks.",
    "Another image replaces the files below the VM's own changes, which stay. Its next start lists files that both have " +
    "changed, and sbx image conflicts NAME shows them again.",
  ],
  options: [
    { name: "cpus", value: "N", about: "number of CPUs" },
    { name: "ram", value: "SIZE", about: "memory, as 4G or 512M" },
    { ...DISK_OPTION, about: "size of the disk, as 40G; it only grows" },
    IMAGE_OPTION,
    { name: "undo-image", about: "go back to the previous image" },
    CREDENTIAL_OPTION,
    {
      name: "undo-credential",
      value: "PROVIDER",
      about: "use the key of this provider that was added last again (repeatable)",
      many: true,
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: [
    "sbx set dev --disk 40G",
    "sbx set dev --cpus 4 --ram 8G",
    "sbx set dev --image golang:1.26",
    "sbx set dev --credential anthropic=work",
  ],
  async run(args) {
    const json = requestOf(args);
    const client = await connect();
    const path = `/vms/${segment(args.words[0])}`;
    const { arch, available_actions } = await client.json<VmInfo>("GET", `${path}/info`);
    // Nothing is pulled for a VM that cannot have it now; the service says why.
    if (args.has("image") && available_actions.includes("set")) {
      json.image = (await pullNamedImage(args, arch)).image;
    } else if (args.has("image")) json.image = args.text("image");
    const vm = await client.json<VmSummary>("POST", `${path}/set`, { json });
    if (args.has("json")) await printJson(vm);
    else {
      const { credentials, ...others } = json;
      if (credentials) await print(`${vm.name}: ${formatKeys(credentials)}`);
      if (Object.values(others).some((value) => value !== undefined)) {
        await print(`${vm.name}: ${changed(vm, json).join(", ")} from its next start: sbx start ${vm.name}`);
      }
    }
    if (json.image !== undefined && !args.has("json")) {
      note(`its changes stay; sbx set ${vm.name} --undo-image goes back`);
    }
    return 0;
  },
};

/**
 * The changes that a call names, but for the image: it is pulled first.
 * @throws {SbxError} `usage.invalid`
 */
function requestOf(args: Arguments): SetRequest {
  const hasUndo = args.has("undo-image");
  if (hasUndo && args.has("image")) throw usageError(command, "give one of --image and --undo-image");
  const undone = args.list("undo-credential");
  const credentials: NonNullable<SetRequest["credentials"]> = {
    ...Object.fromEntries(undone.map((provider) => [provider, null])),
    ...credentialsOf(args).credentials,
  };
  const both = undone.find((provider) => credentials[provider] !== null);
  if (both !== undefined) {
    throw usageError(command, `give one of --credential and --undo-credential for ${both}`);
  }
  const { cpus, ram_mb } = sizeOf(args);
  const request: SetRequest = {
    cpus,
    ram_mb,
    disk_gb: diskOf(args),
    ...hasUndo && { undo_image: true },
    ...Object.keys(credentials).length > 0 && { credentials },
  };
  if (Object.values(request).every((value) => value === undefined) && !args.has("image")) {
    throw usageError(command, "nothing to change: give --cpus, --ram, --disk, --image or --credential");
  }
  return request;
}
