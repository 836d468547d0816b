/** Corp's terms of a home in the fleet, before a VM starts (docs/guides/fleet.md, "Enrolment"). */
import type { Home } from "../../base/home/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";

type Corp = Pick<CorpStore, "state" | "path">;

const HOUR_MS = 3_600_000;

/**
 * Refuses a VM in a home that corp requires in the fleet and that is not, or whose records
 * have not arrived for too long.
 *
 * @throws {SbxError} `fleet.enrolment.missing`, `fleet.enrolment.invalid`, `fleet.lag` (409)
 */
export async function requireEnrolment(home: Home, { state, path }: Corp, now = Date.now()): Promise<void> {
  const terms = "config" in state ? state.config.file.fleet : undefined;
  if (!terms || !terms.required && terms.max_lag_hours === undefined) return;
  const [{ readEnrolment, readHome }, { ensureSigningKey }, { readStatus }] = await Promise.all([
    import("../../fleet/enrolment/mod.ts"),
    import("../../release/signing/mod.ts"),
    import("../../fleet/machine/mod.ts"),
  ]);
  let since: string | undefined;
  if (terms.required) {
    const enrolment = await readEnrolment(path);
    if (!enrolment) {
      throw new SbxError(
        "fleet.enrolment.missing",
        `${path} requires that this machine is in the fleet, and it is not`,
        {
          hint: "root enrols it: sbx-admin fleet enrol < token.txt",
        },
      );
    }
    const { publicKey } = await ensureSigningKey(home);
    const certified = await readHome(path, enrolment, publicKey.id);
    if (!certified) {
      throw new SbxError(
        "fleet.enrolment.missing",
        `${path} requires homes of the fleet, and ${home.dir} is not one of the machine "${enrolment.name}"`,
        { hint: `root adds it: sbx-admin fleet homes --home ${home.dir}` },
      );
    }
    since = certified.certificate.made_at;
  }
  if (terms.max_lag_hours === undefined) return;
  const status = await readStatus(home).catch(() => undefined);
  const times = [since, status?.last_good_at].flatMap((time) => time ? [Date.parse(time)] : []);
  // A time ahead of the clock counts as none: it would never be too long ago.
  const last = Math.max(...times.filter((time) => time <= now + HOUR_MS), -Infinity);
  // A home without a first round has sent nothing yet, and waits for it.
  if (now - last <= terms.max_lag_hours * HOUR_MS) return;
  const hours = Number.isFinite(last)
    ? `for ${Math.floor((now - last) / HOUR_MS)} hours; corp allows ${terms.max_lag_hours}`
    : "yet";
  const reason = status?.error ? `: ${status.error}` : "";
  throw new SbxError("fleet.lag", `no records of this home have been delivered ${hours}${reason}`, {
    hint: "the service keeps trying, and VMs start when records arrive; sbx fleet status shows how far it is",
  });
}
