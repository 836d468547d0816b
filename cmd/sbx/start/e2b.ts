import { join } from "node:path";
import type { Arguments, Command } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home, removeIfThere, writeAtomic } from "../../../lib/base/home/mod.ts";
import { backgroundDelay, timeLimit } from "../../../lib/base/time/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { requireAllowed, Sandboxes, SETTING, type Template } from "../e2b/sandboxes.ts";
import { e2bHandler } from "../e2b/server.ts";
import { claimStore, Store } from "../e2b/store.ts";

/** Port of 127.0.0.1 that E2B's clients connect to. */
const PORT = 19230;
/** Longest wait in `ms` for requests under way at the end. */
const CLOSE_MS = timeLimit(1000);

export const command: Command = {
  name: "e2b",
  usage: "[--port N] [--template NAME=IMAGE]…",
  summary: "let programs written for E2B use VMs of this machine",
  notes: [
    `It serves E2B's API on 127.0.0.1 until ctrl-C, once sbx settings set ${SETTING} true has allowed that.`,
    "A client reaches only the VMs that E2B clients made, with a key that is new at each start.",
    "docs/guides/e2b.md lists the methods of the client, with refusals.",
  ],
  options: [
    { name: "port", value: "N", about: `port of 127.0.0.1; default ${PORT}, 0 a free one` },
    {
      name: "template",
      value: "NAME=IMAGE",
      many: true,
      about: "IMAGE that a template of E2B stands for, or profile:ID (repeatable); other names are images",
    },
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx e2b", "sbx e2b --template my-agent=node:22 --template base=profile:code"],
  async run(args) {
    const port = args.number("port", { min: 0, max: 65535 }) ?? PORT;
    const templates = templatesOf(args);
    const client = await connect();
    await requireAllowed(client);
    const { newToken, TokenGate } = await import("../../../lib/client/gateway/mod.ts");
    const { directClient } = await import("../../../lib/base/proxy/mod.ts");
    const place = home();
    const path = join(place.dir, "e2b.json");
    using _alone = await claimStore(path);
    const store = await Store.open(path);
    const sandboxes = new Sandboxes(client, store, templates);
    const key = newToken();
    const keyFile = join(place.runDir, "e2b.key");
    const http = directClient();
    const server = listen(port, e2bHandler(sandboxes, new TokenGate(key), http));
    // Once it listens: a server that cannot start leaves no key.
    await writeAtomic(keyFile, key);
    const stopTimes = sandboxes.watchTimes();
    const url = `http://127.0.0.1:${server.addr.port}`;
    await print(`export E2B_API_URL=${url} E2B_SANDBOX_URL=${url} E2B_API_KEY="$(cat ${keyFile})"`);
    await new Promise<void>((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve());
    });
    stopTimes();
    sandboxes.close();
    // Streams of clients that watch folders have no end of their own.
    await Promise.race([server.shutdown(), backgroundDelay(CLOSE_MS)]);
    removeIfThere(keyFile);
    return 0;
  },
};

function templatesOf(args: Arguments): Map<string, Template> {
  return new Map(
    args.list("template").map((text) => {
      const [, name, target] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      if (name === undefined) {
        throw usageError(command, `invalid template "${text}"`, "write --template NAME=IMAGE");
      }
      const profile = /^profile:([a-z0-9_-]{1,64})$/.exec(target)?.[1];
      return [name, profile === undefined ? { image: target } : { profile_id: profile }];
    }),
  );
}

function listen(port: number, handler: (request: Request) => Promise<Response>) {
  try {
    return Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, handler);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    throw new SbxError("e2b.port_taken", `another program is listening on port ${port} of this machine`, {
      cause,
      hint: "choose another one: sbx e2b --port N",
    });
  }
}
