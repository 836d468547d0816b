import type { LoginList, LoginOffer, LoginState } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";
import { findOfferedRef, shortRef } from "./ref.ts";
import { runningLine } from "./login.ts";

export const KEEP: Command = {
  name: "credentials keep",
  usage: "[REF] [--label TEXT] [--json]",
  summary: "keep a login that an agent made in a VM, for all VMs",
  notes: [
    "Alone, it lists the logins that agents made. A kept one is renewed on this host, and the VM goes on with refs.",
    UTC_NOTE,
  ],
  options: [
    { name: "label", value: "TEXT", about: "another login beside the one without a label" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["credentials"],
  examples: ["sbx credentials keep", "sbx credentials keep 3f9a12cd --label work"],
  run,
};

async function run(args: Arguments): Promise<number> {
  const client = await connect();
  const [word] = args.words;
  const { offers } = await client.json<LoginList>("GET", "/logins/list");
  if (word === undefined) return await list(offers, args);
  const ref = findOfferedRef(offers.map((each) => each.ref), word);
  const { login } = offers.find((each) => each.ref === ref)!;
  const path = `/logins/${segment(login)}/keep`;
  const kept = await client.json<LoginState>("POST", path, { json: { ref, label: args.text("label") } });
  const { running = [] } = kept;
  if (args.has("json")) {
    await printJson({ ...kept.login, ...(running.length > 0 && { running }) });
    return 0;
  }
  const { title, provider, account } = kept.login!;
  await print(
    `kept the login at ${title}${
      account === undefined ? "" : ` of ${account}`
    }; VMs whose profile grants ${provider} have it`,
  );
  for (const vm of running) note(runningLine(vm));
  return 0;
}

async function list(offers: readonly LoginOffer[], args: Arguments): Promise<number> {
  if (args.has("json")) await printJson({ offers });
  else if (offers.length === 0) await print("no agent made a login in a VM");
  else {
    await print(
      table(
        ["REF", "LOGIN", "ACCOUNT", "VM", "MADE"],
        offers.map(({ ref, login, account, vm, made_at }) => [
          shortRef(ref),
          login,
          account ?? "",
          vm,
          made_at.slice(0, 16).replace("T", " "),
        ]),
      ),
    );
  }
  return 0;
}
