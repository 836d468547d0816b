/** The gate of a session, over the active contract and the session's ledger. */
import { log } from "../base/log/mod.ts";
import { userName } from "../base/user/mod.ts";
import { CredentialBroker, CredentialStore, storePath } from "../credential/mod.ts";
import { type GateOptions, SessionGate } from "./gate/mod.ts";
import { compileLayers, summary } from "../policy/mod.ts";
import { rulesIgnore } from "./activity/mod.ts";
import { fileDraft, type HostFile } from "./file_event.ts";
import { type Contract, detectionsOf, exportRoutesOf } from "./files/contract.ts";
import { historyOf } from "./history.ts";
import { grantOf } from "./grant.ts";
import { knownHostsOf } from "./known_hosts.ts";
import type { VmRecord } from "./files/record.ts";
import { Recording, type RecordingOptions } from "./recording.ts";

/** The parts of an open record. */
export interface RecordParts {
  contract: Contract;
  broker: CredentialBroker;
  recording: Recording;
  gate: SessionGate;
}

export type GateTerms =
  & Pick<GateOptions, "tell" | "before" | "ended" | "hold">
  & Pick<RecordingOptions, "home" | "path" | "onUnrecorded" | "onRecorded" | "onHeads">
  & { contract: Contract; record: VmRecord };

/**
 * Opens the ledger of a session, behind a gate.
 *
 * @throws {SbxError} `policy.invalid`, `detection.conflict`, or an error of opening the ledger
 */
export async function openGate(
  { home, path, contract, record, onUnrecorded, onRecorded, onHeads, ...watchers }: GateTerms,
): Promise<RecordParts> {
  const policy = compileLayers(contract);
  const broker = await CredentialBroker.open({
    store: new CredentialStore(storePath(home)),
    ...grantOf(contract, record.credentials),
    vm: record.id,
    onError: ({ message }) => log.warn(message),
  });
  const terms = contract.ledger;
  const recording = await Recording.open({
    home,
    path,
    sessionId: record.id,
    terms,
    onUnrecorded,
    onRecorded,
    onHeads,
  });
  try {
    const gate = new SessionGate({
      // The service may have refreshed the contract since it wrote the record.
      session: {
        ...record,
        profile_revision: contract.profile.revision ?? record.profile_revision,
        user_id: userName(),
        labels: labelsOf(record),
      },
      policy,
      history: await historyOf(policy, recording.ledger, path),
      known: knownHostsOf(home.dir, record.profile_id, contract),
      detections: detectionsOf(contract),
      exportRoutes: exportRoutesOf(contract),
      recorder: recording.ledger,
      scrubValue: (value) => broker.scrubValue(value),
      decoyIn: (event) => broker.decoyIn(event),
      ...watchers,
    });
    return { contract, broker, recording, gate };
  } catch (error) {
    await recording.close();
    await broker.close();
    throw error;
  }
}

/** Where a session comes from, as all of its events say it. */
function labelsOf({ parent, forked_from }: VmRecord): Record<string, string> | undefined {
  if (parent) return { mcp_server: parent.server, parent_session: parent.id };
  if (!forked_from) return undefined;
  const { session, event } = forked_from;
  return { forked_from: session, ...(event && { forked_event: event.id, forked_hash: event.hash }) };
}

/** A file that the host is about to put into a VM, or to hand out. */
export type FileRequest = HostFile & { trace_id?: string; look?: true };
/** The decision on it, with the reason of a refusal. */
export type FileDecision = { event_id: string; refusal?: string };

/** Asks the rules of a session about a file. @param signal takes a question to a person back */
export async function decideFile(
  { gate, contract }: Pick<RecordParts, "gate" | "contract">,
  { trace_id, look, ...file }: FileRequest,
  signal?: AbortSignal,
): Promise<FileDecision> {
  const { common, ...family } = fileDraft(file, contract.profile.paths ?? {});
  const draft = { common: { ...common, ...(trace_id !== undefined && { trace_id }) }, ...family };
  if (look && rulesIgnore(gate, draft)) return { event_id: "" };
  const passage = await gate.decide(draft, signal);
  const { event_id } = passage.event.common;
  passage.finish();
  return passage.allowed ? { event_id } : { event_id, refusal: summary(passage.decision) };
}
