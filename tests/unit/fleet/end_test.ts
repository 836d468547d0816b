/** Machines that leave a fleet: their records stay, they send nothing more, and they are not missed. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { makeHomeCertificate } from "../../../lib/fleet/enrolment/mod.ts";
import {
  checkFleet,
  endMachine,
  enrol,
  enrolHome,
  findMachine,
  makeToken,
} from "../../../lib/fleet/receive/mod.ts";
import { HttpTarget, makeReport } from "../../../lib/fleet/ship/mod.ts";
import { formatPublicKey } from "../../../lib/release/signing/mod.ts";
import { newKey, record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../../helper/fleet.ts";

const DAY_MS = 86_400_000;

Deno.test("a machine that ended sends nothing more, comes back with no old key, and its name is free", async () => {
  for (const kind of ["retired", "revoked"] as const) {
    await using fleet = await TestFleet.start();
    const { store } = fleet;
    const key = await fleet.machine("laptop-1");
    const other = await fleet.machine("laptop-2");
    const path = `${fleet.dir}/a.db`;
    await record(path, SESSION_A, [{ event: webEvent(SESSION_A) }]);
    await fleet.shipper(key).ship(SESSION_A, path);
    await new HttpTarget(fleet.url, key).report(
      await makeReport(key, { kind: "alive", sbx: "1.0.0", sessions: [] }),
    );
    const machine = (await findMachine(store, key.publicKey.id))!;
    const end = { kind, by: "ann" };
    assertEquals((await endMachine(store, machine, end)).map(({ name }) => name), ["laptop-1"]);
    assertEquals(await endMachine(store, machine, end), []);

    // The receiver runs, and had its key already.
    await record(`${fleet.dir}/b.db`, SESSION_B, [{ event: webEvent(SESSION_B) }]);
    const denied = await assertRejects(
      () => fleet.shipper(key).ship(SESSION_B, `${fleet.dir}/b.db`),
      SbxError,
    );
    assertEquals(denied.code, "fleet.denied");
    assertMatch(denied.message, new RegExp(`was ${kind} on`));
    await fleet.shipper(other).ship(SESSION_B, `${fleet.dir}/b.db`);

    const request = async (signer = key) => ({
      token: (await makeToken(store)).token,
      public_key: formatPublicKey(signer.publicKey),
      name: "laptop-1",
    });
    const again = await assertRejects(async () => enrol(store, await request()), SbxError);
    assertEquals(again.code, "fleet.machine.ended");
    assertEquals((await enrol(store, await request(await newKey()))).name, "laptop-1");

    const { machines } = await checkFleet(store, undefined, Date.now() + 3 * DAY_MS);
    const mine = machines.find(({ machine_id }) => machine_id === key.publicKey.id)!;
    assertEquals([mine.ended?.kind, mine.sessions.map(({ events }) => events)], [kind, [1]]);
    assert(!mine.problems.some((problem) => problem.startsWith("silent")));
    const others = machines.filter(({ machine_id }) => machine_id !== key.publicKey.id);
    assert(others.every(({ problems }) => problems.some((problem) => problem.startsWith("silent"))));
  }
});

Deno.test("homes end with the machine that certified them, and it certifies no more", async () => {
  await using fleet = await TestFleet.start();
  const { store } = fleet;
  const root = await fleet.machine("laptop-1");
  const home = await newKey();
  const certificate = await makeHomeCertificate(root, home.publicKey, "ann");
  await enrolHome(store, { certificate });
  const machine = (await findMachine(store, root.publicKey.id))!;
  const ended = await endMachine(store, machine, { kind: "revoked", by: "ann", reason: "stolen" });
  assertEquals(ended.map(({ machine_id }) => machine_id), [root.publicKey.id, home.publicKey.id]);
  const target = new HttpTarget(fleet.url, home);
  const report = await makeReport(home, { kind: "alive", sbx: "1.0.0", sessions: [] });
  assertEquals((await assertRejects(() => target.report(report), SbxError)).code, "fleet.denied");
  const next = await makeHomeCertificate(root, (await newKey()).publicKey, "eve");
  assertEquals(
    (await assertRejects(() => target.enrolHome({ certificate: next }), SbxError)).code,
    "fleet.denied",
  );
});

Deno.test("a home has a name that the store can read, whatever its machine says that the user is", async () => {
  await using fleet = await TestFleet.start();
  const root = await fleet.machine("laptop-1");
  for (const user of ["_apt", "-".repeat(64), " ", "\u{20000}".repeat(32), "a\u{1d400}".repeat(20)]) {
    const { publicKey } = await newKey();
    await enrolHome(fleet.store, { certificate: await makeHomeCertificate(root, publicKey, user) });
    const home = await findMachine(fleet.store, publicKey.id);
    assertMatch(home!.name, new RegExp(`^[\\p{L}\\p{N}].* ${publicKey.id.slice(0, 8)}$`, "u"));
  }
  assertEquals((await checkFleet(fleet.store)).machines.length, 6);
});

Deno.test("a home that is enrolled while its machine ends sends nothing either", async () => {
  await using fleet = await TestFleet.start();
  const { store } = fleet;
  const root = await fleet.machine("laptop-1");
  const home = await newKey();
  const target = new HttpTarget(fleet.url, home);
  await enrolHome(store, { certificate: await makeHomeCertificate(root, home.publicKey, "ann") });
  const report = () => makeReport(home, { kind: "alive", sbx: "1.0.0", sessions: [] });
  await target.report(await report());
  const machine = (await findMachine(store, root.publicKey.id))!;
  await endMachine(store, machine, { kind: "revoked", by: "ann" });
  // As if another receiver had written the home after the machine's homes were listed.
  await Deno.remove(`${store}/machines/${home.publicKey.id}.ended.json`);
  const denied = await assertRejects(async () => target.report(await report()), SbxError);
  assertEquals(denied.code, "fleet.denied");
  // Ended again, it has its own end.
  const ended = await endMachine(store, machine, { kind: "revoked", by: "ann" });
  assertEquals(ended.map(({ machine_id }) => machine_id), [home.publicKey.id]);
});

Deno.test("a store that cannot be read refuses no certificate for good", async () => {
  await using fleet = await TestFleet.start();
  const root = await fleet.machine("laptop-1");
  const certificate = await makeHomeCertificate(root, (await newKey()).publicKey, "ann");
  const path = `${fleet.store}/machines/${root.publicKey.id}.json`;
  const text = await Deno.readTextFile(path);
  await Deno.writeTextFile(path, "");
  const error = await assertRejects(() => enrolHome(fleet.store, { certificate }), SbxError);
  assertEquals(error.code, "fleet.store.unavailable");
  await Deno.writeTextFile(path, text);
  assertEquals((await enrolHome(fleet.store, { certificate })).of, root.publicKey.id);
});
