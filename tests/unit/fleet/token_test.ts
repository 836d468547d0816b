/**
 * Tokens of enrolment: their number of machines, their time, the name they are
 * for, and names that are unique.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { enrol, listMachines, makeToken } from "../../../lib/fleet/receive/mod.ts";
import { formatPublicKey } from "../../../lib/release/signing/mod.ts";
import { namesIn, storePaths } from "../../../lib/fleet/store.ts";
import { newKey } from "../../helper/fleet.ts";

async function inStore(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const request = async (token: string, name: string) => ({
  token,
  name,
  public_key: formatPublicKey((await newKey()).publicKey),
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, SbxError)).code;
}

Deno.test("token: as many machines as it was made for, and each once, however many try at once", () =>
  inStore(async (dir) => {
    const { token } = await makeToken(dir, { machines: 3, team: "payments" });
    const requests = await Promise.all(
      Array.from({ length: 8 }, (_, at) => request(token, `laptop-${at}`)),
    );
    const [first] = requests;
    await enrol(dir, first);
    // A machine that asks again, after a lost answer, takes no second place.
    await enrol(dir, first);
    const results = await Promise.allSettled(requests.slice(1).map((each) => enrol(dir, each)));
    assertEquals(results.filter(({ status }) => status === "fulfilled").length, 2);
    assertEquals((await listMachines(dir)).map(({ team }) => team), ["payments", "payments", "payments"]);
    assertEquals(await codeOf(enrol(dir, await request(token, "late"))), "fleet.token.invalid");
    // Neither token nor names of the refused ones stay.
    assertEquals((await namesIn(storePaths(dir).tokens)).filter((name) => name.endsWith(".json")), []);
    assertEquals((await namesIn(storePaths(dir).names)).length, 3);
  }));

Deno.test("token: one for a name enrols no other name, and is not used up by trying", () =>
  inStore(async (dir) => {
    const { token } = await makeToken(dir, { name: "laptop-7" });
    assertEquals(await codeOf(enrol(dir, await request(token, "laptop-8"))), "fleet.token.invalid");
    assertEquals((await enrol(dir, await request(token, "laptop-7"))).name, "laptop-7");
    assertEquals(await codeOf(makeToken(dir, { name: "laptop-7", machines: 2 })), "fleet.token.invalid");
  }));

Deno.test("token: a name that is in use is refused, and the token stays good", () =>
  inStore(async (dir) => {
    const [one, two] = [await makeToken(dir), await makeToken(dir)];
    await enrol(dir, await request(one.token, "laptop"));
    assertEquals(await codeOf(enrol(dir, await request(two.token, "laptop"))), "fleet.machine.name");
    assertEquals((await enrol(dir, await request(two.token, "laptop-2"))).name, "laptop-2");
  }));

Deno.test("token: an expired one enrols no machine, and goes with the next one that is made", () =>
  inStore(async (dir) => {
    const { token, expires_at } = await makeToken(dir, { hours: 1, machines: 2 });
    await enrol(dir, await request(token, "in-time"));
    const later = Date.parse(expires_at) + 1;
    const late = await request(token, "late");
    assertEquals(await codeOf(enrol(dir, late, later)), "fleet.token.invalid");
    const [file] = (await namesIn(storePaths(dir).tokens)).filter((name) => name.endsWith(".json"));
    const path = `${storePaths(dir).tokens}/${file}`;
    await Deno.writeTextFile(
      path,
      (await Deno.readTextFile(path)).replace(expires_at, "2020-01-01T00:00:00.000Z"),
    );
    await makeToken(dir);
    assertEquals((await namesIn(storePaths(dir).tokens)).includes(file), false);
  }));

Deno.test("token: a machine that is enrolled takes no second name and no place of another token", () =>
  inStore(async (dir) => {
    const [one, two] = [await makeToken(dir, { machines: 3 }), await makeToken(dir)];
    const first = await request(one.token, "laptop");
    await enrol(dir, first);
    const another = { ...first, name: "payroll" };
    const refused = await assertRejects(() => enrol(dir, another), SbxError);
    assertEquals(refused.code, "fleet.machine.name");
    assertStringIncludes(refused.message, '"laptop"');
    assertEquals((await namesIn(storePaths(dir).names)).length, 1);
    assertEquals((await enrol(dir, { ...first, token: two.token })).name, "laptop");
    assertEquals((await enrol(dir, await request(two.token, "payroll"))).name, "payroll");
    // Two names at once: one is kept.
    const { public_key } = await request(one.token, "x");
    await Promise.allSettled(
      ["a", "b", "c"].map((name) => enrol(dir, { token: one.token, name, public_key })),
    );
    assertEquals((await namesIn(storePaths(dir).names)).length, 3);
  }));

Deno.test("token: a machine looks for its place without a write for each place that is taken", () =>
  inStore(async (dir) => {
    const { token } = await makeToken(dir, { machines: 40 });
    const folder = storePaths(dir).tokens;
    for (let at = 0; at < 20; at++) await enrol(dir, await request(token, `laptop-${at}`));
    const late = await request(token, "late");
    // Each write of a place ends with a link, and so does the machine's name. A watcher loses
    // files that are gone when it looks.
    const links: string[] = [];
    const { link } = Deno;
    Object.assign(Deno, { link: (from: string, to: string) => (links.push(to), link(from, to)) });
    try {
      await enrol(dir, late);
    } finally {
      Object.assign(Deno, { link });
    }
    assertEquals(links.filter((path) => path.startsWith(`${folder}/`)).length, 1, links.join("\n"));
  }));
