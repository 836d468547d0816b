/**
 * The model that a person chooses for an agent: one that the agent knows, or one of a service of this host.
 */
import { z } from "zod";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { readAnswer } from "../../../lib/base/json/mod.ts";
import { hostFetch } from "../../../lib/base/proxy/mod.ts";
import { didYouMean, suggestion } from "../../../lib/base/text/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import {
  type AgentModel,
  type HostService,
  hostServices,
  modelWords,
  needsModel,
} from "../../../lib/config/profile/mod.ts";
import { type AgentProfile, agentProfile } from "./agent_start.ts";

/** Time for a service of this host to list its models, in `ms`. */
const LIST_TIMEOUT_MS = timeLimit(5000);
/** Largest list of models, and most levels of it; one that is larger is not compared with. */
const LIST_LIMITS = { bytes: 1024 * 1024, depth: 32 };
/** Most models that an error names. */
const NAMES_MAX = 20;

const ModelList = z.object({ data: z.array(z.object({ id: z.string().max(256) })) });

/** An agent with its model. */
export interface ChosenModel {
  profile: AgentProfile;
  /** arguments for the agent */
  words: string[];
  /** for its files; absent: none was chosen */
  model?: AgentModel;
  /** services of this host that its VM gets; absent: all that the profile names */
  services?: string[];
}

/**
 * Finds the model of `--model`: `SERVICE/MODEL` is a model of a service of this host that the agent's
 * profile, or its profile for local models, names. Any other text goes to the agent.
 *
 * @throws {SbxError} `agent.no_model`: the agent needs one, takes none, or the service does not have it;
 * `agent.no_service`: nothing answers at the service's port
 */
export async function chooseModel(profile: AgentProfile, text: string | undefined): Promise<ChosenModel> {
  const { agent, id } = profile;
  const local = agent.local === undefined ? profile : await agentProfile(agent.local);
  const services = hostServices(local.host?.services ?? []);
  if (text === undefined) {
    if (!needsModel(agent)) return { profile, words: [] };
    const names = services.map(({ name }) => name);
    throw new SbxError("agent.no_model", `${profile.name} needs a model`, {
      hint: `sbx agent ${id} --model ${names[0] ?? "SERVICE"}/MODEL; services are ${names.join(", ")}`,
    });
  }
  const [first, ...rest] = text.split("/");
  const service = services.find(({ name }) => name === first);
  if (service) {
    const name = await requireModel(service, rest.join("/"), `sbx agent ${id} --model ${first}`);
    const url = `http://${service.name}.host.sbx:${service.port}/v1`;
    return { profile: local, words: [], model: { name, url }, services: [service.name] };
  }
  const words = modelWords(agent, text);
  if (words) return { profile, words, model: { name: text } };
  throw new SbxError("agent.no_model", `${profile.name} takes no --model "${text}"`, {
    hint: services.length > 0
      ? `it works with models of this host: --model ${services[0].name}/MODEL`
      : "pass the agent's own option after --",
  });
}

/**
 * Compares a model with the service's own list.
 *
 * @returns its name there: Ollama lists `qwen3` as `qwen3:latest`
 */
async function requireModel({ name, port }: HostService, model: string, usage: string): Promise<string> {
  const models = await listModels(name, port);
  if (model === "") {
    throw new SbxError("agent.no_model", `--model ${name} names no model`, {
      hint: models ? `${usage}/MODEL; ${have(models)}` : `${usage}/MODEL`,
    });
  }
  // A service that does not list its models, such as one that wants a key for that.
  if (!models) return model;
  const found = [model, `${model}:latest`].find((each) => models.includes(each));
  if (found !== undefined) return found;
  const begun = models.find((each) => each.startsWith(model));
  const line = (name: string) => `${usage}/${name}`;
  const near = begun === undefined ? didYouMean(model, models, line) : suggestion(line(begun));
  throw new SbxError("agent.no_model", `${name} of this host has no model "${model}"`, {
    hint: near ? `${near} ${have(models)}` : have(models),
  });
}

function have(models: readonly string[]): string {
  if (models.length === 0) return "it has none";
  const more = models.length > NAMES_MAX ? ` and ${models.length - NAMES_MAX} more` : "";
  return `it has ${models.slice(0, NAMES_MAX).join(", ")}${more}`;
}

/** @returns undefined: its answer is no list of models */
async function listModels(name: string, port: number): Promise<string[] | undefined> {
  const signal = AbortSignal.timeout(LIST_TIMEOUT_MS);
  const address = `127.0.0.1:${port}`;
  try {
    const response = await hostFetch(`http://${address}/v1/models`, { signal, redirect: "error" });
    const bytes = await readAnswer(response, LIST_LIMITS, (problem) => new RangeError(problem));
    if (!response.ok) return undefined;
    return ModelList.parse(JSON.parse(new TextDecoder().decode(bytes))).data.map(({ id }) => id);
  } catch (cause) {
    const isAnswer = cause instanceof RangeError || cause instanceof SyntaxError ||
      cause instanceof z.ZodError;
    if (isAnswer) return undefined;
    throw new SbxError("agent.no_service", `${name} does not answer at ${address}`, {
      cause,
      hint:
        "start it; a port of its own stands in [host] services of a profile (docs/guides/host-services.md)",
    });
  }
}
