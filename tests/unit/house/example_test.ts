/** The examples of docs/examples: their schemas, what the profile's VM needs, and what a drain does. */
import { assert, assertEquals, assertThrows } from "@std/assert";
// @ts-types="../../helper/hcl.d.ts"
import { parse as parseHcl } from "@cdktf/hcl2json";
import { loadAll } from "js-yaml";
import { StatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { Pod } from "kubernetes-models/v1/Pod";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { parse as parseToml } from "@std/toml";
import { BUILTIN_PROFILES } from "../../../lib/config/profile/mod.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Parsed } from "../../helper/json.ts";

type Any = Parsed;

/** Memory of sbx, QEMU and what they hold beside the VM's, in `MiB`. */
const OVERHEAD_MB = 1024;
const read = (path: string) => Deno.readTextFile(fromRoot(`docs/guides/examples/${path}`));
const KINDS: Record<string, new (data: Any) => { validate(): void }> = {
  StatefulSet: StatefulSet as Any,
  NetworkPolicy: NetworkPolicy as Any,
  PodDisruptionBudget: PodDisruptionBudget as Any,
};

/**
 * Keys of the objects that the examples write; the schema takes unknown ones,
 * which a cluster refuses or ignores.
 */
const KEYS: Record<string, string[]> = {
  PodSpec:
    "automountServiceAccountToken enableServiceLinks hostUsers nodeSelector terminationGracePeriodSeconds containers volumes"
      .split(" "),
  Container: "name image env lifecycle readinessProbe livenessProbe resources securityContext volumeMounts"
    .split(" "),
  Security: "allowPrivilegeEscalation privileged readOnlyRootFilesystem seccompProfile capabilities".split(
    " ",
  ),
};

function onlyKeys(value: object, of: keyof typeof KEYS): void {
  assertEquals(Object.keys(value).filter((key) => !KEYS[of].includes(key)), [], of);
}

/** What the VM of a profile has, by the profile or by the settings' defaults. */
async function vmOf(profile: string) {
  const { vm = {} } = parseToml(BUILTIN_PROFILES.get(profile)!) as Any;
  const defaults = Object.fromEntries(
    (await Deno.readTextFile(fromRoot("docs/reference/settings.md"))).split("\n").flatMap((line) => {
      const match = /^\| `vm\.resources\.(\w+)` .*\| `(\d+)` \| `\d+` \|$/.exec(line);
      return match ? [[match[1], Number(match[2])]] : [];
    }),
  );
  return { ...defaults, ...vm } as { cpu_count: number; ram_gb: number; scratch_disk_size_gb: number };
}

Deno.test("the Kubernetes example fits its schema and the profile's VM, and a drain suspends", async () => {
  const documents = loadAll(await read("kubernetes/workload.yaml")) as Any[];
  assertEquals(documents.map(({ kind }) => kind), ["StatefulSet", "PodDisruptionBudget", "NetworkPolicy"]);
  for (const document of documents) new KINDS[document.kind](document).validate();
  const broken = structuredClone(documents[0]);
  broken.spec.template.spec.containers[0].resources = "3Gi";
  let isRefused = false;
  try {
    new KINDS.StatefulSet(broken).validate();
  } catch {
    isRefused = true;
  }
  assert(isRefused, "the schema is looked at");
  const [{ spec: { template, volumeClaimTemplates } }] = documents;
  const pod = template.spec;
  onlyKeys(pod, "PodSpec");
  const [container] = pod.containers;
  onlyKeys(container, "Container");
  onlyKeys(container.securityContext, "Security");
  const env = Object.fromEntries(container.env.map(({ name, value }: Any) => [name, value]));
  const vm = await vmOf(env.SBX_WORKLOAD_PROFILE);
  const { requests, limits } = container.resources;
  for (const { memory } of [requests, limits]) {
    assertEquals(memory, `${vm.ram_gb + OVERHEAD_MB / 1024}Gi`, "memory of a VM cannot be taken back");
  }
  assertEquals(Number(limits.cpu), vm.cpu_count + 1);
  assertEquals([requests, limits].map((each) => each["devices.kubevirt.io/kvm"]), ["1", "1"]);
  const [{ spec: claim }] = volumeClaimTemplates;
  assert(parseInt(claim.resources.requests.storage) >= vm.scratch_disk_size_gb + vm.ram_gb + 4);
  assertEquals(container.lifecycle.preStop.exec.command, ["sbx", "suspend", "workload"]);
  assert(pod.terminationGracePeriodSeconds >= 120);
  // No more than it needs: neither the node's root nor a token of the cluster.
  assertEquals(pod.hostUsers, false);
  assertEquals(pod.automountServiceAccountToken, false);
  assertEquals(container.securityContext.privileged, false);
  const mounted = container.volumeMounts.map(({ name }: Any) => name);
  const named = [...pod.volumes, ...volumeClaimTemplates.map(({ metadata }: Any) => metadata)].map((
    { name },
  ) => name);
  assertEquals(mounted.sort(), named.sort());
  assert(mounted.includes("home") && env.SBX_HOME === "/var/lib/sbx-home");
  for (const { spec } of documents.slice(1)) {
    assertEquals((spec.selector ?? spec.podSelector).matchLabels, template.metadata.labels);
  }
});

Deno.test("the Nomad example parses, fits the profile's VM, and leaves time to suspend", async () => {
  const hcl = await parseHcl("workload.nomad.hcl", await read("nomad/workload.nomad.hcl")) as Any;
  assertEquals(Object.keys(hcl), ["job"]);
  const [job] = hcl.job["sbx-workload"];
  assertEquals(Object.keys(job).sort(), ["constraint", "group", "type"]);
  const [group] = job.group.workload;
  assertEquals(Object.keys(group).sort(), ["count", "migrate", "task", "volume"]);
  const [task] = group.task.sbx;
  assertEquals(
    Object.keys(task).sort(),
    ["config", "driver", "env", "kill_signal", "kill_timeout", "resources", "volume_mount"],
  );
  const vm = await vmOf(task.env[0].SBX_WORKLOAD_PROFILE);
  assertEquals(task.resources, [{ cores: vm.cpu_count, memory: vm.ram_gb * 1024 + OVERHEAD_MB }]);
  assertEquals(task.kill_signal, "SIGTERM");
  assert(parseInt(task.kill_timeout) >= 120);
  assertEquals(task.config[0].devices, [{ host_path: "/dev/kvm", container_path: "/dev/kvm" }]);
  assertEquals(task.config[0].privileged, undefined);
  assertEquals(group.volume[task.volume_mount[0].volume].length, 1);
  assertEquals(task.volume_mount[0].destination, task.env[0].SBX_HOME);
});

Deno.test("the entry point is a shell script that suspends on SIGTERM", async () => {
  const script = await read("workload.sh");
  const { success } = await new Deno.Command("sh", {
    args: ["-n", fromRoot("docs/guides/examples/workload.sh")],
  })
    .output();
  assert(success);
  assert(script.includes("trap leave TERM INT") && script.includes("sbx suspend workload"));
  assert((await read("Containerfile")).includes("docs/guides/examples/workload.sh"));
});

/** Keys of agent-sandbox's resources that the example writes, by the fields of its CRDs. */
const POOL_KEYS: Record<string, string[]> = {
  SandboxTemplate: ["podTemplate"],
  SandboxWarmPool: ["replicas", "sandboxTemplateRef"],
};

Deno.test("the pool for agent-sandbox names its template, whose pod fits its schema and the profile's VM", async () => {
  const documents = loadAll(await read("kubernetes/pool.yaml")) as Any[];
  assertEquals(documents.map(({ kind }) => kind), Object.keys(POOL_KEYS));
  for (const { apiVersion, kind, spec } of documents) {
    assertEquals(apiVersion, "extensions.agents.x-k8s.io/v1beta1");
    assertEquals(Object.keys(spec).sort(), POOL_KEYS[kind]);
  }
  const [template, pool] = documents;
  assertEquals(pool.spec.sandboxTemplateRef, { name: template.metadata.name });
  const { metadata, spec: pod } = template.spec.podTemplate;
  const of = (spec: Any) =>
    new Pod({ metadata: { ...metadata, name: "one" }, spec } as Any) as unknown as { validate(): void };
  of(pod).validate();
  assertThrows(() => of({ ...pod, containers: "none" }).validate());
  onlyKeys(pod, "PodSpec");
  const [container] = pod.containers;
  onlyKeys(container, "Container");
  onlyKeys(container.securityContext, "Security");
  const vm = await vmOf("code");
  for (const { memory } of Object.values<Any>(container.resources)) {
    assertEquals(memory, `${vm.ram_gb + OVERHEAD_MB / 1024}Gi`);
  }
  assert(parseInt(container.resources.limits["ephemeral-storage"]) >= vm.scratch_disk_size_gb + 4);
  assertEquals([pod.hostUsers, pod.automountServiceAccountToken, container.securityContext.privileged], [
    false,
    false,
    false,
  ]);
  assertEquals(
    container.volumeMounts.map(({ name }: Any) => name).sort(),
    pod.volumes.map(({ name }: Any) => name).sort(),
  );
});

Deno.test("Nomad's batch job parses, and runs a command once, with room for its VM", async () => {
  const hcl = await parseHcl("batch.nomad.hcl", await read("nomad/batch.nomad.hcl")) as Any;
  const [job] = hcl.job["sbx-run"];
  assertEquals(Object.keys(job).sort(), ["constraint", "group", "parameterized", "type"]);
  assertEquals([job.type, job.parameterized], ["batch", [{ meta_required: ["command"] }]]);
  const [group] = job.group.run;
  assertEquals([group.restart[0].attempts, group.reschedule[0].attempts], [0, 0]);
  const [task] = group.task.sbx;
  const { entrypoint, args, privileged } = task.config[0];
  assertEquals([entrypoint.slice(0, 2), args[1], privileged], [
    ["sbx", "run"],
    "${NOMAD_META_command}",
    undefined,
  ]);
  const of = (name: string) => entrypoint[entrypoint.indexOf(name) + 1];
  assertEquals(task.resources, [{
    cores: Number(of("--cpus")),
    memory: parseInt(of("--ram")) * 1024 + OVERHEAD_MB,
  }]);
});

Deno.test("Slurm's batch file is a script of bash, whose memory is its VM's and sbx's", async () => {
  const path = "docs/guides/examples/slurm.sbatch";
  assert((await new Deno.Command("bash", { args: ["-n", fromRoot(path)] }).output()).success);
  const script = await read("slurm.sbatch");
  const of = (pattern: RegExp) => Number(pattern.exec(script)?.[1]);
  assertEquals(of(/^#SBATCH --mem=(\d+)G$/m), of(/ --ram (\d+)G /) + OVERHEAD_MB / 1024);
  assertEquals(of(/^#SBATCH --cpus-per-task=(\d+)$/m), of(/ --cpus (\d+) /));
});
