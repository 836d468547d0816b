import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { openWindow } from "../browser.ts";
import { connect } from "../connect.ts";

export const command: Command = {
  name: "desktop",
  usage: "[--print-url] [--json]",
  summary: "open the desktop: sessions, approvals, terminals and settings in a window",
  notes: [
    "The address signs one browser in; it is good for one minute and one use.",
    "Where no window can be opened, the address is printed, as with --print-url.",
  ],
  options: [{ name: "print-url", about: "print the address and open nothing" }, JSON_OPTION],
  examples: ["sbx desktop", "sbx desktop --print-url"],
  async run(args) {
    const client = await connect();
    const { code } = await client.json<{ code: string }>("POST", "/desktop/codes");
    const url = `${client.base}/desktop/#code=${code}`;
    if (args.has("json")) await printJson({ url, opened: !args.has("print-url") && await openWindow(url) });
    else if (args.has("print-url") || !await openWindow(url)) await print(url);
    return 0;
  },
};
