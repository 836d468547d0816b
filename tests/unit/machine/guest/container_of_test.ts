/** The container of a process: what its cgroup and its engine's files say, or whoever has changed them. */
import { assertEquals, assertThrows } from "@std/assert";
import { dirname, join } from "node:path";
import { containerIn, Containers } from "../../../../lib/machine/guest/container/mod.ts";
import { ActivityFrame, DnsFrame, PacketRefusal, StreamOpen } from "../../../../lib/machine/guest/schema.ts";

const ID = "3f2a90c1d7e4".repeat(5) + "abcd";
const OTHER = "f".repeat(64);
const STEP = "k3v0x1y2z3a4b5c6d7e8f9g0h";
const DOCKER = `/var/lib/docker/containers/${ID}/config.v2.json`;
const PODMAN = "/var/lib/containers/storage/overlay-containers";

function withGuest(
  files: Record<string, string>,
  test: (containers: Containers, root: string) => void,
): void {
  const root = Deno.makeTempDirSync();
  try {
    for (const [path, text] of Object.entries(files)) write(join(root, path), text);
    test(new Containers(root), root);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
}

function write(path: string, text: string): void {
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.writeTextFileSync(path, text);
}

Deno.test("a cgroup names the outermost container, as each engine does", () => {
  const found: Record<string, [engine: string | undefined, id: string]> = {
    [`/docker/${ID}`]: ["docker", ID],
    [`/system.slice/docker-${ID}.scope`]: ["docker", ID],
    [`/docker/${ID}/docker/${OTHER}`]: ["docker", ID],
    [`/docker/${ID}/libpod-${OTHER}`]: ["docker", ID],
    [`/machine.slice/libpod-${ID}.scope/container`]: ["podman", ID],
    [`/libpod_parent/libpod-${ID}`]: ["podman", ID],
    [`/buildah/buildah-${ID}`]: ["buildah", ID],
    [`/docker/buildkit/${STEP}`]: [undefined, STEP],
    [`/kubepods.slice/pod1.slice/cri-containerd-${ID}.scope`]: ["containerd", ID],
    [`/default/${ID}`]: ["containerd", ID],
  };
  for (const [cgroup, [engine, id]] of Object.entries(found)) {
    assertEquals(containerIn(cgroup), { engine, id }, cgroup);
  }
  const none = [
    "/",
    "/user.slice/user-0.slice/session-1.scope",
    `/machine.slice/libpod-conmon-${ID}.scope`,
    `/docker/${ID}f`,
    `/docker/${"Z".repeat(64)}`,
    `/docker/${ID}.evil`,
  ];
  for (const cgroup of none) assertEquals(containerIn(cgroup), undefined, cgroup);
});

Deno.test("Docker's file gives the container's name and image", () =>
  withGuest({
    "/proc/7/cgroup": `0::/docker/${ID}\n`,
    "/proc/8/cgroup": "0::/\n",
    [DOCKER]: JSON.stringify({ Name: "/web", Config: { Image: "registry.example:5000/nginx:1" } }),
  }, (containers) => {
    assertEquals(containers.of(7), { id: ID, name: "web", image: "registry.example:5000/nginx:1" });
    assertEquals(containers.of(8), undefined);
    assertEquals(containers.of(9), undefined);
  }));

Deno.test("podman's list gives the container's name and image", () => {
  const metadata = JSON.stringify({ "image-name": "docker.io/library/debian:13", name: "quick_fox" });
  withGuest({
    "/proc/7/cgroup": `0::/libpod_parent/libpod-${ID}\n`,
    "/proc/8/cgroup": `0::/machine.slice/libpod-${OTHER}.scope/container\n`,
    [`${PODMAN}/containers.json`]: JSON.stringify([{ id: "0" }, { id: ID, metadata }]),
    [`${PODMAN}/volatile-containers.json`]: JSON.stringify([{ id: OTHER, metadata: '{"name":"brief"}' }]),
  }, (containers) => {
    assertEquals(containers.of(7), { id: ID, name: "quick_fox", image: "docker.io/library/debian:13" });
    assertEquals(containers.of(8), { id: OTHER, name: "brief" });
  });
});

Deno.test("buildah's file gives the name of a step's container, and its image", () =>
  withGuest({
    "/proc/7/cgroup": `0::/buildah/buildah-${ID}\n`,
    [`${PODMAN}/${ID}/userdata/buildah.json`]: JSON.stringify({
      "container-name": "golang-working-container",
      image: "docker.io/library/golang:1.25",
    }),
  }, (containers) => {
    const image = "docker.io/library/golang:1.25";
    assertEquals(containers.of(7), { id: ID, name: "golang-working-container", image });
  }));

Deno.test("a container that its engine names later has its name later", () =>
  withGuest({ "/proc/7/cgroup": `0::/docker/${ID}\n` }, (containers, root) => {
    assertEquals(containers.of(7), { id: ID });
    write(join(root, DOCKER), JSON.stringify({ Name: "/late", Config: { Image: "img" } }));
    assertEquals(containers.of(7), { id: ID, name: "late", image: "img" });
  }));

Deno.test("a file that is not an engine's own gives no name, and stops nothing", () => {
  const texts = [
    "",
    "no JSON",
    "null",
    "[1]",
    '{"Name": {"a": 1}, "Config": 7}',
    JSON.stringify({ Name: "/\u001b[2Jweb", Config: { Image: "a\nb" } }),
    JSON.stringify({ Name: "/" + "a".repeat(129), Config: { Image: "a".repeat(513) } }),
    " ".repeat(5 * 1024 * 1024) + JSON.stringify({ Name: "/web" }),
  ];
  for (const text of texts) {
    withGuest({ "/proc/7/cgroup": `0::/docker/${ID}\n`, [DOCKER]: text }, (containers) => {
      assertEquals(containers.of(7), { id: ID }, text.slice(0, 80));
    });
  }
});

Deno.test("a pipe in the place of an engine's file is not opened", () =>
  withGuest({ "/proc/7/cgroup": `0::/docker/${ID}\n` }, (containers, root) => {
    Deno.mkdirSync(dirname(join(root, DOCKER)), { recursive: true });
    assertEquals(new Deno.Command("mkfifo", { args: [join(root, DOCKER)] }).outputSync().success, true);
    assertEquals(containers.of(7), { id: ID });
  }));

Deno.test("the host takes a container of every frame that names a process, a frame without, and no odd one", () => {
  const program = { pid: 1, ppid: 1, uid: 0, executable: "/bin/a", argv: ["a"], cwd: "/" };
  const network = { host_ip: "1.2.3.4", port: 1, process_name: "a", pid: 1 };
  const frames = [
    [StreamOpen, { t: "Open", ...network, stream: 1 }],
    [PacketRefusal, { t: "Refused", protocol: 17, ...network }],
    [DnsFrame, { id: 1, raw: "", proto: "udp", process_name: "a" }],
    [ActivityFrame, { t: "Process", ...program }],
    [ActivityFrame, { t: "Exec", ...program, started_ms: 1 }],
    [ActivityFrame, { t: "Permission", id: 1, kind: "exec", ...program }],
    [ActivityFrame, { t: "Permission", id: 1, kind: "open", ...program, operations: ["read"], path: "/a" }],
  ] as const;
  const odd = [
    {},
    { id: "short" },
    { id: ID, name: "a b" },
    { id: ID, name: "a\n" },
    { id: ID, image: "\u001b[2J" },
    { id: ID, image: "a".repeat(513) },
    { id: ID, more: 1 },
  ];
  for (const [schema, frame] of frames) {
    assertEquals(schema.parse(frame), frame);
    const container = { id: ID, name: "web", image: "nginx:1" };
    assertEquals(schema.parse({ ...frame, container }) as unknown, { ...frame, container });
    for (const container of odd) {
      assertThrows(() => schema.parse({ ...frame, container }), JSON.stringify(container));
    }
  }
});
