import type {
  DetectionList,
  EvidenceResult,
  OverlayRemoved,
  OverlaySaved,
} from "../../../lib/api/detection.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { evidenceTable } from "../evidence.ts";
import { counted, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "detection",
  usage: "list | add PACK_FILE | remove ID | hunt SESSION --pack PACK_FILE",
  summary: "detections in force, packs put in while VMs run, and hunts through a session's record",
  options: [
    { name: "pack", value: "FILE", about: "hunt: the pack to hunt with" },
    { name: "limit", value: "N", about: "hunt: rows of different evidence, 100 if it does not say" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  examples: [
    "sbx detection list",
    "sbx detection add exfiltration.yaml",
    "sbx detection hunt demo --pack exfiltration.yaml",
  ],
  async run(given) {
    const [verb, what] = given.words;
    if (verb === "list" && what === undefined) return await list(await connect(), given);
    if (verb === "add" && what !== undefined) return await add(what, given);
    if (verb === "remove" && what !== undefined) return await remove(await connect(), what, given);
    if (verb === "hunt" && what !== undefined) return await hunt(what, given);
    throw usage(command, `sbx detection takes ${command.usage}`);
  },
};

async function list(client: Client, given: Given): Promise<number> {
  const answer = await client.json<DetectionList>("GET", "/detection");
  if (given.on("json")) await printJson(answer);
  else if (answer.rules.length === 0) await print("no detections are in force");
  else {
    const rows = answer.rules.map((
      { id, pack_id, scope, enabled, compiled, match_count, last_matched_event },
    ) => [
      id,
      pack_id,
      scope,
      compiled ? enabled ? "" : "off" : "does not compile",
      String(match_count),
      last_matched_event ?? "",
    ]);
    await print(table(["DETECTION", "PACK", "SCOPE", "", "MATCHES", "LAST EVENT"], rows));
  }
  return 0;
}

async function add(path: string, given: Given): Promise<number> {
  const json = { pack: await readPackFile(path) };
  const answer = await (await connect()).json<OverlaySaved>("POST", "/detection", { json });
  if (given.on("json")) await printJson(answer);
  else await print(`${answer.rule.id} is in force: ${reach(answer)}`);
  return answer.propagation.failed_session_count === 0 ? 0 : 1;
}

async function remove(client: Client, id: string, given: Given): Promise<number> {
  const answer = await client.json<OverlayRemoved>("DELETE", `/detection/${encodeURIComponent(id)}`);
  if (given.on("json")) await printJson(answer);
  else await print(`${id} is removed: ${reach(answer)}`);
  return 0;
}

/** Exit 0 whether or not something is found: a hunt is a question. */
async function hunt(session: string, given: Given): Promise<number> {
  const path = given.text("pack");
  if (path === undefined) throw usage(command, "a hunt needs --pack FILE");
  const limit = given.text("limit");
  const json = { pack: await readPackFile(path), ...(limit !== undefined && { limit: Number(limit) }) };
  const url = `/sessions/${segment(session)}/detection/hunt`;
  const found = await (await connect()).json<EvidenceResult>("POST", url, { json });
  await (given.on("json") ? printJson(found) : print(evidenceTable(found)));
  return 0;
}

/**
 * A pack as data, whatever it is written in. It is compiled here already: the service gets no file, and could not say
 * on which line something is wrong.
 *
 * @throws {SbxError} what is wrong with the file
 */
async function readPackFile(path: string): Promise<unknown> {
  const [{ packData }, { loadPack }] = await Promise.all([
    import("../../../lib/detection/pack/pack.ts"),
    import("../../../lib/detection/live/load.ts"),
  ]);
  await loadPack(path);
  return await packData(path);
}

function reach(
  { propagation: { target_count, failed_session_count } }: OverlayRemoved | OverlaySaved,
): string {
  return failed_session_count === 0
    ? `in ${counted(target_count, "running VM")}`
    : `${failed_session_count} of ${
      counted(target_count, "running VM")
    } could not be reached; sbx status says why`;
}
