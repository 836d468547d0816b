/**
 * Enrolment by root: homes derive from the machine, a second home is in no fleet, and corp's `required` and
 * `max_lag_hours` hold VMs back until records arrive.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { deviceName } from "../../lib/base/user/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { FleetMachine, openTarget } from "../../lib/fleet/machine/mod.ts";
import { ensureHomeProof, homeProofPath, makeHomeCertificate } from "../../lib/fleet/enrolment/mod.ts";
import {
  checkFleet,
  endMachine,
  endOf,
  enrol,
  enrolHome,
  findMachine,
  listMachines,
  makeToken,
} from "../../lib/fleet/receive/mod.ts";
import { ensureSigningKey, formatPublicKey, keyPaths } from "../../lib/release/signing/mod.ts";
import { requireEnrolment } from "../../lib/service/contract/enrolment.ts";
import { World } from "../helper/enrolment.ts";
import { newKey, record, SESSION_A, SESSION_B, webEvent } from "../helper/fleet.ts";

const HOUR_MS = 3_600_000;

Deno.test("fleet required: no VM before root enrols the machine, in no other home, and not while records stay here", async () => {
  await using world = await World.start();
  const { home, key } = await world.home("ann");
  const corp = await world.corp(home);
  const refusal = (of = home, now?: number) =>
    assertRejects(() => requireEnrolment(of as never, corp, now), SbxError);
  const before = await refusal();
  assertEquals([before.code, before.hint], [
    "fleet.enrolment.missing",
    "root enrols it: sbx-admin fleet enrol < token.txt",
  ]);

  const { token } = await makeToken(world.store, { team: "payments", machines: 2 });
  const early = await world.admin(["homes", "--home", home.dir]);
  assertEquals(early.code, 1);
  assertStringIncludes(early.text, "this machine is not enrolled");
  const enrolled = await world.admin(["enrol", "--name", "laptop-1"], token);
  assertEquals(enrolled.code, 0, enrolled.text);
  assertStringIncludes(enrolled.text, "not bound to a TPM");
  const { mode } = await Deno.stat(join(world.dir, "etc/fleet/attest/machine-key.pem"));
  assertEquals(mode! & 0o777, 0o600);
  assertStringIncludes((await refusal()).hint!, `sbx-admin fleet homes --home ${home.dir}`);

  const homes = await world.admin(["homes", "--home", home.dir, "--json"]);
  assertEquals(homes.code, 0, homes.text);
  assertEquals(JSON.parse(homes.text).homes[0].home_id, key.publicKey.id);
  await requireEnrolment(home as never, corp);
  const machines = await listMachines(world.store);
  const [machine] = machines.filter(({ of }) => of === undefined);
  assertEquals(
    machines.filter(({ of }) => of !== undefined).map(({ machine_id, team, of }) => [machine_id, team, of]),
    [[key.publicKey.id, "payments", machine.machine_id]],
  );

  // Another home of the same person is in no fleet, also with a copy of the first one's certificate.
  const second = (await world.home("ann-2")).home;
  assertEquals((await refusal(second)).code, "fleet.enrolment.missing");
  const certificates = join(world.dir, "etc/fleet/homes");
  const [name] = await Array.fromAsync(Deno.readDir(certificates), ({ name }) => name);
  const other = (await ensureSigningKey(second)).publicKey.id;
  await Deno.copyFile(join(certificates, name), join(certificates, `${other}.json`));
  assertEquals((await refusal(second)).code, "fleet.enrolment.missing");

  // A timer certifies nothing again: the time since the first certificate goes on.
  const certificateOf = () => Deno.readTextFile(join(world.dir, `etc/fleet/homes/${key.publicKey.id}.json`));
  const certificate = await certificateOf();
  assertEquals((await world.admin(["homes", "--home", home.dir])).code, 0);
  assertEquals(await certificateOf(), certificate);

  // Nothing is delivered for longer than corp allows.
  const late = await refusal(home, Date.now() + 30 * HOUR_MS);
  assertEquals(late.code, "fleet.lag");
  assertStringIncludes(late.message, "for 30 hours; corp allows 24");
  assertStringIncludes(late.hint!, "sbx fleet status");
  const path = join(home.dir, `ledgers/${SESSION_A}/session.db`);
  await Deno.mkdir(join(path, ".."), { recursive: true });
  await record(path, SESSION_A, [{ event: webEvent(SESSION_A) }]);
  const folder = openTarget(`file://${world.store}`, key);
  const sending = await FleetMachine.open({
    home,
    key,
    target: folder,
    version: "1.0.0",
    isRunning: () => false,
  });
  assertEquals(await sending.round(), undefined);
  await requireEnrolment(home as never, corp, Date.now() + 23 * HOUR_MS);
  const { machines: checked } = await checkFleet(world.store);
  const mine = checked.find(({ machine_id }) => machine_id === key.publicKey.id);
  assertEquals(mine?.sessions.map(({ state }) => state), ["complete"]);
});

Deno.test("a home that no enrolled machine certified is refused, also one that a home certified", async () => {
  await using world = await World.start();
  const { token } = await makeToken(world.store);
  await world.admin(["enrol", "--name", "laptop-1"], token);
  const { home, key } = await world.home("ann");
  await world.admin(["homes", "--home", home.dir]);
  const stranger = await newKey();
  for (const signer of [stranger, key]) {
    const certificate = await makeHomeCertificate(signer, stranger.publicKey, "eve");
    const { code } = await assertRejects(() => enrolHome(world.store, { certificate }), SbxError);
    assertEquals(code, "fleet.home.invalid");
  }
  assertEquals((await listMachines(world.store)).length, 2);
});

Deno.test("a home that the receiver refuses keeps none of the others out", async () => {
  await using world = await World.start();
  const { token } = await makeToken(world.store);
  await world.admin(["enrol", "--name", "laptop-1"], token);
  const [ended, later] = [await world.home("ann"), await world.home("ben")];
  await world.admin(["homes", "--home", ended.home.dir]);
  const home = (await findMachine(world.store, ended.key.publicKey.id))!;
  await endMachine(world.store, home, { kind: "revoked", by: "root" });
  const { code, text } = await world.admin(["homes", "--home", ended.home.dir, "--home", later.home.dir]);
  assertEquals(code, 1);
  assertStringIncludes(text, `machine ${home.machine_id} was revoked`);
  assertStringIncludes(text, later.key.publicKey.id.slice(0, 16));
  assertEquals((await findMachine(world.store, later.key.publicKey.id))?.name.startsWith("root@"), true);
});

Deno.test("a home with another person's public key is certified for no one", async () => {
  await using world = await World.start();
  const { token } = await makeToken(world.store, { machines: 1 });
  assertEquals((await world.admin(["enrol", "--name", "laptop-1"], token)).code, 0);
  const { home: ann, key } = await world.home("ann");
  // Bob has Ann's public key, as anyone has who saw her signature, and a proof of his own key at most.
  const { home: bob } = await world.home("bob");
  const publicKey = keyPaths(ann).record;
  await Deno.copyFile(publicKey, keyPaths(bob).record);
  const refused = await world.admin(["homes", "--home", bob.dir]);
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.text, "has not proved to have its key");
  // Nor with her own words for another user.
  await ensureHomeProof(ann, key, 4711);
  await Deno.copyFile(homeProofPath(ann), homeProofPath(bob));
  assertEquals((await world.admin(["homes", "--home", bob.dir])).code, 1);
  assertEquals((await listMachines(world.store)).map(({ name }) => name), ["laptop-1"]);

  await ensureHomeProof(ann, key);
  const taken = await world.admin(["homes", "--home", ann.dir, "--home", bob.dir]);
  assertEquals(
    (await listMachines(world.store)).filter(({ of }) => of !== undefined).map(({ machine_id }) =>
      machine_id
    ),
    [
      key.publicKey.id,
    ],
  );
  assertStringIncludes(taken.text, `${key.publicKey.id.slice(0, 16)}`);
});

Deno.test("revoke: a whole id is that machine's, whatever name another one has", async () => {
  await using world = await World.start();
  const keys = [await newKey(), await newKey()];
  const ids = keys.map(({ publicKey }) => publicKey.id);
  for (const [at, { publicKey }] of keys.entries()) {
    const { token } = await makeToken(world.store);
    await enrol(world.store, { token, name: ids[1 - at], public_key: formatPublicKey(publicKey) });
  }
  const { code, text } = await world.admin(["revoke", world.store, ids[0]]);
  assertEquals(code, 0, text);
  assertEquals((await endOf(world.store, ids[0]))?.kind, "revoked");
  assertEquals(await endOf(world.store, ids[1]), undefined);
});

Deno.test("import: a machine of this host's name, and a second home, keep no record out of a store", async () => {
  await using world = await World.start();
  const { token } = await makeToken(world.store);
  const { publicKey } = await newKey();
  await enrol(world.store, { token, name: deviceName(), public_key: formatPublicKey(publicKey) });
  for (const [at, session] of [SESSION_A, SESSION_B].entries()) {
    const path = join(world.dir, `${at}.db`);
    await record(path, session, [{ event: webEvent(session) }]);
    const { code, text } = await world.admin(["import", world.store, path], "", { home: `importer-${at}` });
    assertEquals(code, 0, text);
  }
  const names = (await listMachines(world.store)).map(({ name }) => name);
  assertEquals([names.length, new Set(names).size], [3, 3]);
});

Deno.test("corp: terms of a fleet without a collector are refused", async () => {
  await using world = await World.start();
  for (const terms of ["required = true", "max_lag_hours = 4"]) {
    await Deno.writeTextFile(world.corpPath, `[fleet]\n${terms}\n`);
    const { state } = await world.corp({ dir: join(world.dir, "ann") });
    assertEquals(state.status, "closed", terms);
  }
});
