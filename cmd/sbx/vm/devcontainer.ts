import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { DEVCONTAINER_COMMANDS, type DevcontainerSettings } from "../../../lib/release/environment/schema.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { runCommands } from "./lifecycle.ts";

export const command: Command = {
  name: "devcontainer",
  usage: "NAME [COMMAND] [--json]",
  summary: "list or run the commands of a VM's devcontainer.json",
  notes: [`COMMAND is one of ${DEVCONTAINER_COMMANDS.join(", ")}.`],
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  completes: ["vms", DEVCONTAINER_COMMANDS],
  examples: ["sbx devcontainer demo", "sbx devcontainer demo postCreateCommand"],
  async run(args) {
    const [name, word] = args.words;
    const chosen = DEVCONTAINER_COMMANDS.find((each) => each === word);
    if (word !== undefined && chosen === undefined) {
      const all = `use one of ${DEVCONTAINER_COMMANDS.join(", ")}`;
      const near = didYouMean(word, DEVCONTAINER_COMMANDS);
      throw usageError(command, `no command "${word}"`, near ? `${near} ${all}` : all);
    }
    const client = await connect();
    const vm = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
    const settings = vm.devcontainer;
    if (!settings) {
      throw new SbxError("devcontainer.missing", `"${name}" was made without a devcontainer.json`, {
        hint: "make one with it: sbx create NAME --from-dir DIR --devcontainer",
      });
    }
    if (chosen === undefined) {
      await (args.has("json") ? printJson(settings) : print(formatSettings(settings)));
      return 0;
    }
    if (!settings.commands?.some((each) => each.name === chosen)) {
      throw new SbxError("devcontainer.missing", `the devcontainer.json of "${name}" has no ${chosen}`, {
        hint: `sbx devcontainer ${name} lists its commands`,
      });
    }
    await runCommands(client, vm, settings, [chosen]);
    if (args.has("json")) await printJson({ vm: vm.name, ran: chosen });
    return 0;
  },
};

function formatSettings(
  { user = "root", folder, commands = [], ports = [], volumes = [] }: DevcontainerSettings,
) {
  const rows = [
    ["user", user, ""],
    ["folder", folder, ""],
    ...volumes.map((volume) => ["volume", volume, ""]),
    ...ports.map(({ port, label = "" }) => ["port", `${port}`, label]),
    ...commands.flatMap(({ name, origin, run }) =>
      run.map(({ name: part, command }) => [
        part ? `${name}.${part}` : name,
        typeof command === "string" ? command : command.join(" "),
        origin,
      ])
    ),
  ];
  return table(["SETTING", "VALUE", "OF"], rows.map((row) => row.map((cell) => plain(cell))));
}
