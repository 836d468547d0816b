import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { deviceName } from "../../../lib/base/user/mod.ts";
import { enrol, findMachine, makeToken } from "../../../lib/fleet/receive/mod.ts";
import { FolderTarget, Shipper } from "../../../lib/fleet/ship/mod.ts";
import { formatPublicKey } from "../../../lib/release/signing/mod.ts";

/** `sbx-admin fleet import`: ledgers copied to this machine, signed by its key. */
export const fleetImport: Command = {
  name: "fleet import",
  usage: "DIR LEDGER… [--json]",
  summary: "put session.db files into a store, after verifying them",
  notes: [
    "This machine signs for them: that they are unaltered since they were written, their own seals say.",
  ],
  options: [JSON_OPTION],
  words: { min: 2, max: 10_000 },
  examples: ["sbx-admin fleet import /srv/fleet ledgers/*/session.db"],
  async run(args) {
    const [{ readOwner, verifyLedger }, { ensureSigningKey }] = await Promise.all([
      import("../../../lib/ledger/read/mod.ts"),
      import("../../../lib/release/signing/mod.ts"),
    ]);
    const [dir, ...paths] = args.words;
    const key = await ensureSigningKey(home());
    if (!await findMachine(dir, key.publicKey.id)) {
      const { token } = await makeToken(dir);
      // The host may be a machine of the store already, and each of its homes has a key.
      const name = `${deviceName().slice(0, 40)} import ${key.publicKey.id.slice(0, 8)}`;
      await enrol(dir, { token, public_key: formatPublicKey(key.publicKey), name });
    }
    const cursors = await Deno.makeTempDir({ prefix: "sbx-import-" });
    const imported: { session_id: string; events: number }[] = [];
    try {
      // Without cursors of its own: the store reports its content.
      const shipper = new Shipper({ dir: cursors, key, target: new FolderTarget(dir) });
      for (const path of paths) {
        const { ok, first_bad } = await verifyLedger(path);
        if (!ok) {
          throw new SbxError("ledger.invalid", `${path} does not verify: ${first_bad?.reason}`, {
            hint: "sbx verify NAME names its first bad event; nothing of it was imported",
          });
        }
        const session_id = await readOwner(path);
        const { events } = await shipper.ship(session_id, path);
        imported.push({ session_id, events });
      }
    } finally {
      await Deno.remove(cursors, { recursive: true });
    }
    if (args.has("json")) await printJson({ imported });
    else {
      for (const { session_id, events } of imported) {
        await print(`${session_id}  ${count(events, "new event")}`);
      }
    }
    return 0;
  },
};
