/**
 * The shared cache: `npm ci` of one project in two VMs, the second of which gets its packages from the
 * cache. The registry is on loopback, and answers after a delay like one that is far away. Prints bytes of
 * the registry and times of both.
 */
import { join } from "node:path";
import { NPM_HOST, NpmProject } from "../helper/npm_project.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const ROUNDS = 3;
/** Time before an answer of the registry, in `ms`. */
const DELAY_MS = 40;
const PACKAGES = Array.from(
  { length: 60 },
  (_, at): [string, number] => [`package-${at}`, at === 0 ? 6e6 : 60_000],
);

const project = new NpmProject(PACKAGES);
const world = await TestUpstreams.make([NPM_HOST], async ({ url }) => {
  await new Promise((resolve) => setTimeout(resolve, DELAY_MS));
  return project.answer(new URL(url).pathname);
});
const sbx = await Sbx.make({ spare: false });
try {
  await sbx.ok("start");
  await sbx.api("PATCH", "/settings/edit", {
    "network.upstream_overrides": world.overrides,
    "network.extra_ca_file": world.caFile,
  });
  await sbx.ok("profile", "copy", "code", "cached");
  const profile = join(sbx.home, "profiles/cached/profile.toml");
  await Deno.writeTextFile(profile, `${await Deno.readTextFile(profile)}\n[cache]\nnpm = true\n`);
  for (const name of ["one", "two"]) await sbx.ok("create", name, "--profile", "cached");
  const bytes = { one: [] as number[], two: [] as number[] };
  const ms = { one: [] as number[], two: [] as number[] };
  // The first round warms both VMs up.
  for (let round = 0; round <= ROUNDS; round++) {
    await sbx.ok("cache", "clear");
    for (const name of ["one", "two"] as const) {
      const before = project.sent;
      const line = `rm -rf /root/.npm; ${project.install(`/workspace/p${round}`)}`;
      const time = await timed(() => sbx.ok("exec", name, "--timeout", "300", "-c", line));
      if (name === "one") {
        await eventually("every package is kept", async () => {
          const { uses } = JSON.parse(await sbx.ok("cache", "list", "--json"));
          return uses[0]?.artifacts === PACKAGES.length;
        });
      }
      if (round === 0) continue;
      bytes[name].push(project.sent - before);
      ms[name].push(time);
    }
  }
  console.log(JSON.stringify({
    name: "cache",
    packages: PACKAGES.length,
    bytes: [median(bytes.one), median(bytes.two)],
    ratio_bytes: rounded(median(bytes.two) / median(bytes.one), 3),
    ms: [Math.round(median(ms.one)), Math.round(median(ms.two))],
    ratio_ms: rounded(median(ms.two) / median(ms.one), 2),
  }));
} finally {
  await sbx.dispose();
  await world.close();
}
