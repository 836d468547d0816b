import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { openWindow } from "../browser.ts";
import { connect } from "../connect.ts";

/** The gateway's answer to a request for a code. */
interface DesktopCode {
  code: string;
  /** host name of this machine, used only by the running gateway's page */
  hostname: string;
}

export const command: Command = {
  name: "desktop",
  usage: "[--print-url] [--json]",
  summary: "open sessions, approvals, terminals and settings in a window",
  notes: [
    "The address signs one browser in; it is good for one minute and one use. The browser stays signed in until the gateway ends.",
    "Where no window can be opened, the address is printed, as with --print-url.",
  ],
  options: [{ name: "print-url", about: "print the address and open nothing" }, JSON_OPTION],
  examples: ["sbx desktop", "sbx desktop --print-url"],
  async run(args) {
    const client = await connect();
    const { code, hostname } = await client.json<DesktopCode>("POST", "/desktop/codes");
    const { port } = new URL(client.base);
    const url = `http://${hostname}:${port}/desktop/#code=${code}`;
    if (args.has("json")) await printJson({ url, opened: !args.has("print-url") && await openWindow(url) });
    else if (args.has("print-url") || !await openWindow(url)) await print(url);
    return 0;
  },
};
