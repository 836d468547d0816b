import type { LoginState } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { LOGINS } from "./login.ts";

export const command: Command = {
  name: "logout",
  usage: `${LOGINS.join("|")} [--label TEXT] [--json]`,
  summary: "forget the login of a subscription",
  notes: [
    "Requests that use it end at once. The provider is not notified: its own page ends the session there.",
  ],
  options: [{ name: "label", value: "TEXT", about: "the login with this label" }, JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: [LOGINS],
  examples: ["sbx logout claude"],
  run,
};

async function run(args: Arguments): Promise<number> {
  const client = await connect();
  const path = `/logins/${segment(args.words[0])}`;
  const { login } = await client.json<LoginState>("DELETE", path, { query: { label: args.text("label") } });
  await (args.has("json") ? printJson(login) : print(`logged out of ${login!.title}`));
  return 0;
}
