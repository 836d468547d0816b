import type { TemplateInfo, TemplateList } from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { Spinner, table, UTC_NOTE } from "../output.ts";
import { IMAGE_OPTION, pullNamedImage } from "../vm/image_option.ts";
import { ARCH_OPTION, archOf, formatRam } from "../vm/new_vm.ts";

export const command: CommandGroup = {
  name: "template",
  summary: "list, make and remove the booted guests that VMs start from",
  subcommands: [
    {
      name: "template list",
      usage: "[--json]",
      summary: "list the templates",
      notes: [
        "The first VM of a kind boots; meanwhile sbx saves a booted guest, and later VMs start from its memory.",
        UTC_NOTE,
      ],
      options: [JSON_OPTION],
      examples: ["sbx template list"],
      run: list,
    },
    {
      name: "template make",
      usage: "[PROFILE] [--image IMAGE] [--arch ARCH] [--json]",
      summary: "make the template for the VMs of a profile now",
      options: [IMAGE_OPTION, ARCH_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["profiles"],
      examples: ["sbx template make", "sbx template make code"],
      run: make,
    },
    {
      name: "template remove",
      usage: "ID [--json]",
      summary: "remove a template; running VMs do not need it",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["templates"],
      examples: ["sbx template remove 3f2a9c51d0b7e846"],
      run: remove,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const answer = await (await connect()).json<TemplateList>("GET", "/templates");
  if (args.has("json")) await printJson(answer);
  else if (answer.templates.length === 0) await print("no templates yet");
  else {
    await print(
      table(
        ["TEMPLATE", "ARCH", "CPUS", "MEMORY", "ACCELERATOR", "ON DISK", "MADE"],
        answer.templates.map(rowOf),
      ),
    );
  }
  return 0;
}

async function make(args: Arguments): Promise<number> {
  const profile_id = args.words[0];
  const { image } = await pullNamedImage(args);
  const client = await connect();
  using _spinner = new Spinner("booting a guest and writing it down");
  const made = await client.json<TemplateInfo>("POST", "/templates", {
    json: { profile_id, image, arch: archOf(args) },
  });
  if (args.has("json")) await printJson(made);
  else await print(`template ${made.id}: ${formatBytes(made.bytes)} on disk`);
  return 0;
}

async function remove(args: Arguments): Promise<number> {
  const [id] = args.words;
  const answer = await (await connect()).json("DELETE", `/templates/${segment(id, "template")}`);
  await (args.has("json") ? printJson(answer) : print(`removed the template ${id}`));
  return 0;
}

function rowOf({ id, arch, cpus, ram_mb, accelerator, bytes, created_at }: TemplateInfo): string[] {
  return [id, arch, String(cpus), formatRam(ram_mb), accelerator, formatBytes(bytes), created_at];
}
