import { resolve } from "node:path";
import type { CreateRequest, VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { type BroughtIn, sourcesOf } from "../../../lib/repo/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { requireThisMachine } from "../host.ts";
import { parseEnv } from "./program.ts";
import { formatImage } from "./info.ts";
import {
  BRING_OPTIONS,
  bringFolder,
  bringLiveFolder,
  formatBrought,
  formatLive,
  FROM_DIRS_OPTIONS,
} from "../files/repository.ts";
import { fromProjects, meetRequests, PROJECT_OPTION } from "../files/project_file.ts";
import { BUILD_OPTIONS } from "./build_image.ts";
import { FOLDER_IMAGE_OPTIONS, imageOfFolder } from "./folder_image.ts";
import { pullNamedImage } from "./image_option.ts";
import { whileQueued } from "./queue.ts";
import { completeVm, DISK_OPTION, diskOf, sizeWithin, waitUntilRunning } from "./new_vm.ts";
import { NEW_VM_OPTIONS, newVmOf } from "./new_vm_options.ts";
import { usageError } from "../output.ts";

export const command: Command = {
  name: "create",
  usage: "NAME [OPTIONS]",
  summary: "create a VM and boot it",
  options: [
    ...NEW_VM_OPTIONS,
    DISK_OPTION,
    { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the VM" },
    { name: "rm", about: "remove the VM when it stops (not persistent)" },
    { name: "from", value: "VM", about: "copy the disk and workspace of a stopped VM", completes: "vms" },
    ...FROM_DIRS_OPTIONS,
    {
      name: "live",
      value: "DIR",
      about: "give the VM this folder itself, read-write, with masks (docs/guides/live.md)",
    },
    ...BRING_OPTIONS,
    PROJECT_OPTION,
    ...FOLDER_IMAGE_OPTIONS,
    ...BUILD_OPTIONS,
    { name: "no-wait", about: "do not wait until the VM is running" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: [
    "sbx create demo",
    "sbx create big --cpus 4 --ram 4G --disk 40G",
    "sbx create dev --image golang:1.25",
    "sbx create small --limit processes=200 --limit cpu_percent=50",
    "sbx create job --rm --queue 600",
    "sbx create copy --from demo",
    "sbx create demo --credential anthropic=work",
    "sbx create demo --from-dir .",
    "sbx create demo --from-dir web --from-dir api --read-only ../library",
    "sbx create demo --from-dir . --dockerfile",
    "sbx create demo --from-dir . --devcontainer",
    "sbx create demo --live .",
  ],
  async run(args) {
    const [name] = args.words;
    const live = args.text("live");
    const [dir, ...more] = args.list("from-dir");
    const readOnly = args.list("read-only");
    if (live !== undefined && dir !== undefined) {
      throw usageError(command, "--live and --from-dir exclude each other");
    }
    if (live !== undefined) requireThisMachine(`--live ${live}`);
    if (dir === undefined && args.has("to")) throw usageError(command, "--to needs --from-dir");
    const json: CreateRequest = {
      name,
      ...newVmOf(args),
      disk_gb: diskOf(args),
      persistent: !args.has("rm"),
      env: parseEnv(command, args.list("env")),
      from: args.text("from"),
      ...live !== undefined && { live: { dir: resolve(live), with_secrets: args.has("with-secrets") } },
    };
    if ((dir ?? live ?? readOnly[0]) !== undefined && args.has("no-wait")) {
      throw usageError(command, "--from-dir, --read-only and --live need a VM that is running");
    }
    if (args.has("to") && more.length > 0) {
      throw usageError(
        command,
        "--to needs one --from-dir",
        "sbx push DIR NAME --to PATH brings each to its place",
      );
    }
    for (const each of [...dir === undefined ? [] : [dir], ...more, ...readOnly]) await sourcesOf(each);
    const folders = [...dir === undefined ? [] : [dir], ...more, ...live === undefined ? [] : [live]];
    const { env: projectEnv, project, folders: named, later, profile_id, ...projectSize } =
      await fromProjects(
        folders,
        args,
      );
    const built = await imageOfFolder(command, args, dir);
    if (typeof built === "number") return built;
    const image = built?.image ?? (await pullNamedImage(args, undefined, profile_id)).image;
    const plan = built?.plan;
    if (plan) {
      json.env = { ...plan.env, ...json.env };
      json.devcontainer = plan.settings;
    }
    if (projectEnv) json.env = { ...projectEnv, ...json.env };
    if (project) json.project = project;
    if (named) json.folders = named;
    // A copy has its source's profile.
    if (json.from === undefined) json.profile_id ??= profile_id;
    const client = await connect();
    const size = { ...plan?.size, ...projectSize };
    const created = await createVm(client, { ...json, image }, size);
    if (!args.has("no-wait")) await waitUntilRunning(client, created);
    const brought = await completeVm(client, created, async () => {
      const all: BroughtIn[] = [];
      const bring = async (dir: string, how: { place?: string; isReadOnly?: boolean } = {}) => {
        const allowsPlain = image !== undefined;
        all.push(await bringFolder(client, created.name, dir, args, { allowsPlain, ...how }));
      };
      const shared = live === undefined ? undefined : await bringLiveFolder(client, created.name);
      if (shared) all.push(shared);
      if (dir !== undefined) await bring(dir, { place: args.text("to") ?? plan?.place });
      for (const each of more) await bring(each);
      for (const each of readOnly) await bring(each, { isReadOnly: true });
      return all;
    });
    if (plan) {
      const { setUpDevcontainer } = await import("./lifecycle.ts");
      await setUpDevcontainer(client, created, plan.settings);
    }
    await meetRequests(client, created, later);
    const info = await client.json<VmInfo>("GET", `/vms/${created.id}/info`);
    if (args.has("json")) {
      const [brought_in] = brought;
      await printJson(brought_in ? { ...info, brought_in, all_brought_in: brought } : info);
    } else {
      const copies = brought.filter(({ place }) => place !== info.live?.place);
      const lines = [...info.live ? [formatLive(info.live)] : [], ...copies.map(formatBrought)];
      await print([formatCreated(info), ...lines].join("\n"));
    }
    return 0;
  },
};

/**
 * Creates a VM.
 *
 * @param asked size that a `devcontainer.json` or a project file asks for; without it where corp
 * or this host does not allow it
 */
async function createVm(
  client: Client,
  json: CreateRequest,
  asked: Parameters<typeof sizeWithin>[0] = {},
): Promise<VmSummary> {
  const create = (json: CreateRequest) =>
    whileQueued(client, json, client.json<VmSummary>("POST", "/vms/create", { json }));
  const given = Object.fromEntries(Object.entries(json).filter(([, value]) => value !== undefined));
  const size = Object.entries(sizeWithin(asked)).filter(([name]) => !(name in given));
  if (size.length === 0) return await create(json);
  try {
    return await create({ ...Object.fromEntries(size), ...given });
  } catch (error) {
    const isSize = error instanceof SbxError && ["settings.corp_locked", "vm.too_large"].includes(error.code);
    if (!isSize) throw error;
    note(`sbx: the size that the folder asks for is without effect here: ${error.message}`);
    return await create(json);
  }
}

function formatCreated(info: VmInfo): string {
  const { name, status, hypervisor, accelerator } = info;
  const image = formatImage(info);
  const facts = [hypervisor, accelerator, image && `image ${image}`];
  return `${name}: ${status} (${facts.filter(Boolean).join(", ")})\n` +
    (info.deprecated ?? []).map((sentence) => `${sentence}\n`).join("") +
    `sbx exec ${name} -- CMD… runs a program in it, sbx shell ${name} opens a terminal`;
}
