/** An agent of one framework on a VM of sbx, with a model at MODEL_URL; prints its last words. */
import { Client, Sandbox } from "@sbx/sdk";

const { MODEL_URL, SBX_BASE, FRAMEWORK } = process.env;
const PROMPT = "Write and read a file.";

const client = await Client.connect({ host: SBX_BASE, token: "none" });
const vm = await Sandbox.get("dev", { client });

async function byAiSdk() {
  const { generateText, isStepCount } = await import("ai");
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const { vmTools } = await import("./ai_sdk.ts");
  const model = createOpenAICompatible({
    name: "local",
    baseURL: MODEL_URL,
    apiKey: "none",
  })("local");
  const { text } = await generateText({
    model,
    prompt: PROMPT,
    tools: vmTools(vm),
    stopWhen: isStepCount(10),
  });
  return text;
}

async function byOpenAiAgents() {
  const {
    Agent,
    run,
    setDefaultOpenAIClient,
    setOpenAIAPI,
    setTracingDisabled,
  } = await import("@openai/agents");
  const { default: OpenAI } = await import("openai");
  const { vmTools } = await import("./openai_agents.ts");
  setTracingDisabled(true);
  setDefaultOpenAIClient(
    new OpenAI({ baseURL: MODEL_URL, apiKey: "none" }),
  );
  setOpenAIAPI("chat_completions");
  const agent = new Agent({
    name: "Coder",
    instructions: "Work in the VM.",
    model: "local",
    tools: vmTools(vm),
  });
  return (await run(agent, PROMPT)).finalOutput ?? "";
}

console.log(await (FRAMEWORK === "ai" ? byAiSdk() : byOpenAiAgents()));
process.exit();
