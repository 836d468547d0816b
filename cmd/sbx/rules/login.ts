import type { LoginList, LoginState, LoginView, LoginWaiting } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { openInBrowser } from "../browser.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { readSecret } from "./secret.ts";

/** Subscriptions that sbx logs in to. */
export const LOGINS = ["claude", "codex", "gemini", "copilot"];

export const command: Command = {
  name: "login",
  usage: `[${LOGINS.join("|")}] [--label TEXT] [--device] [--no-browser] [--json]`,
  summary: "log in to a subscription, for VMs; alone: list the logins",
  notes: [
    "The tokens stay in the credential store of this host; VMs get refs, and agents in them are logged in.",
    "docs/guides/subscriptions.md explains it.",
  ],
  options: [
    { name: "label", value: "TEXT", about: "another login beside the one without a label" },
    { name: "device", about: "type a code on the provider's page, where it has that" },
    { name: "no-browser", about: "print the address, and paste the code that its page shows" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: [LOGINS],
  examples: ["sbx login", "sbx login claude", "sbx login copilot --device"],
  run,
};

async function run(args: Arguments): Promise<number> {
  const [word] = args.words;
  const client = await connect();
  if (word === undefined) return await list(client, args);
  if (args.has("device") && args.has("no-browser")) {
    throw usageError(command, "--device cannot be combined with --no-browser");
  }
  const way = args.has("device") ? "device" : args.has("no-browser") ? "paste" : undefined;
  const path = `/logins/${segment(word)}`;
  const label = args.text("label");
  const waiting = await client.json<LoginWaiting>("POST", path, { json: { label, way } });
  const { attempt } = waiting;
  await show(waiting);
  let state: LoginState = { waiting: true };
  if (waiting.way === "paste") {
    const hint = `run sbx login ${word} again, and paste the code that the page shows at its end`;
    const code = await readSecret("code", hint);
    state = await client.json<LoginState>("POST", `${path}/code`, { json: { label, code, attempt } });
  }
  while (state.waiting) state = await client.json<LoginState>("GET", path, { query: { label, attempt } });
  const { login, running = [] } = state;
  if (args.has("json")) await printJson({ ...login, ...(running.length > 0 && { running }) });
  else {
    const { title, provider } = login!;
    await print(`logged in to ${title}; VMs whose profile grants ${provider} have it`);
    for (const vm of running) note(runningLine(vm));
  }
  return 0;
}

/** Says from when on a running VM has a login. */
export function runningLine({ name, problem }: NonNullable<LoginState["running"]>[number]): string {
  return `${name}: ${problem === undefined ? "has it now; start the agent again" : `not yet: ${problem}`}`;
}

/** Shows a person where to go. */
async function show({ way, ways, url, user_code }: LoginWaiting): Promise<void> {
  if (user_code !== undefined) note(`type the code ${user_code} there`);
  const isOpen = way !== "paste" && await openInBrowser(url);
  note(isOpen ? "finish the login in the browser; its address is:" : "open this address in a browser:");
  note(url);
  if (way === "browser" && !isOpen) {
    const other = ways.includes("paste")
      ? "; else use --no-browser"
      : ways.includes("device")
      ? "; else use --device"
      : "";
    note(`the browser has to run on this machine${other}`);
  }
}

async function list(client: Client, args: Arguments): Promise<number> {
  const answer = await client.json<LoginList>("GET", "/logins/list");
  if (args.has("json")) await printJson(answer);
  else {
    await print(
      table(["LOGIN", "SUBSCRIPTION", "LABEL", "STATE", "GRANTED BY", ""], answer.logins.map(row)),
    );
  }
  if (!args.has("json") && answer.offers.length > 0) {
    const vms = [...new Set(answer.offers.map(({ vm }) => vm))].join(", ");
    note(`agents logged in by themselves in ${vms}; keep a login on this host: sbx credentials keep`);
  }
  return 0;
}

function row({ login, title, label, state, provider, problem }: LoginView): string[] {
  const words =
    { logged_in: "logged in", logged_out: "logged out", over: `ended: sbx login ${login}` }[state];
  return [login, title, label ?? "", words, provider, problem ?? ""];
}
