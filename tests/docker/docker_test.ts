/**
 * Engines of containers in a VM: what they build and run is held to the rules of the VM, and
 * trusts its CA. `make test-docker`.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

/** A root of curl, its libraries, busybox and Debian's certificates, which knows nothing of the host's CA. */
const MAKE_ROOT = `set -e
mkdir -p img/root/bin img/root/etc/ssl/certs
cd img
for path in /usr/bin/curl $(ldd /usr/bin/curl | grep -o '/[^ ]*'); do cp -L --parents "$path" root; done
cp /usr/lib/sbx/bin/busybox root/bin/
for name in sh awk cat env grep ls nc sleep httpd wget; do ln -s busybox root/bin/$name; done
cp /usr/lib/sbx/ca-certificates.crt root/etc/ssl/certs/
cat >Dockerfile <<'END'
FROM scratch
COPY root /
RUN /usr/bin/curl -sS -o /with https://ok.test/build && env -i /usr/bin/curl -sS -o /without https://ok.test/bare
END
docker build -q -t img .
`;
/**
 * podman on the files of the build above. Its steps have the CA by variables alone: they
 * share an overlay with their engine.
 */
const PODMAN_BUILD = `set -e
cd img
printf 'FROM scratch\nCOPY root /\n%s\n' >Podmanfile 'RUN /usr/bin/curl -sS -o /with https://ok.test/podman-build'
podman build -q -f Podmanfile -t img .
`;
const PODMAN_RUN = `set -e
podman network create shared >/dev/null
podman run -d --name pod-web --network shared img httpd -f -p 80 -h /etc/ssl >/dev/null
podman run --name pod-client --network shared img sh -c '
until wget -q -O - http://pod-web/certs/ca-certificates.crt | grep -c BEGIN; do sleep 1; done
env -i /usr/bin/curl -sS https://ok.test/podman-run
/usr/bin/curl -sS -o /dev/null -w "%{http_code}" https://ok.test/refused'
`;
/**
 * npm's testcontainers: a container on a network of its own, reached at a
 * published port, and a program in it.
 */
const TESTCONTAINERS = `import { GenericContainer, Network } from "testcontainers";
const network = await new Network().start();
const web = await new GenericContainer("img").withNetwork(network).withExposedPorts(80)
  .withCommand(["httpd", "-f", "-p", "80", "-h", "/etc/ssl"]).start();
const answer = await fetch(\`http://\${web.getHost()}:\${web.getMappedPort(80)}/certs/ca-certificates.crt\`);
const { output } = await web.exec(["env", "-i", "/usr/bin/curl", "-sS", "https://ok.test/testcontainers"]);
await web.stop();
await network.stop();
console.log(answer.status, output.trim());
`;
const JAVA = `import java.net.*;
import java.net.http.*;
public class Get {
  public static void main(String[] args) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(args[0])).build();
    System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
  }
}
`;
const COMPOSE = `services:
  web: { image: img, command: [httpd, -f, -p, "80", -h, /etc/ssl], ports: ["8090:80"] }
  client:
    image: img
    depends_on: [web]
    command:
      - sh
      - -c
      - |
        until wget -q -O - http://web/certs/ca-certificates.crt | grep -c BEGIN; do sleep 1; done
        env -i /usr/bin/curl -sS https://ok.test/run
        /usr/bin/curl -sS -o /dev/null -w '%{http_code}' https://ok.test/refused
`;

/**
 * Networks that begin elsewhere than on an IPv4 bridge: one with IPv6, and a second interface on the guest's
 * own (macvlan), whose neighbour is made up, since nothing answers there. tftp is UDP.
 */
const OTHER_NETWORKS = `set -e
docker network create --ipv6 --subnet fd00:39::/64 six >/dev/null
docker network create -d macvlan -o parent=dummy0 --subnet 10.39.0.0/24 --gateway 10.39.0.1 beside >/dev/null
docker run --rm --privileged --network six img sh -c '
/usr/bin/curl -6 -sS --resolve ok.test:443:[2001:db8::39] -o /dev/null -w "%{http_code}\\n" https://ok.test/six
/usr/bin/curl -g -sS -m 5 tftp://[2001:db8::3939]/x 2>/dev/null || echo no UDP'
docker run --rm --privileged --network beside img sh -c '
/bin/busybox arp -s 10.39.0.1 02:00:00:00:00:01
to="--resolve ok.test:443:198.51.100.39"
/usr/bin/curl -sS -k -m 5 $to https://ok.test/macvlan 2>/dev/null || echo no TCP
/usr/bin/curl -sS -m 5 tftp://198.51.100.40/x 2>/dev/null || echo no UDP'
`;
/** Packets outside of TCP that the record has of these containers. */
const REFUSED_PACKETS = ["tcp://198.51.100.39:443", "udp://198.51.100.40:69", "udp://[2001:db8::3939]:69"];

/** A folder below another one, as a compressed archive. */
async function packed(dir: string, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const { success, stdout } = await new Deno.Command("tar", { args: ["-cz", "-C", dir, name] }).output();
  assert(success, `tar cannot pack ${dir}/${name}: make test-docker installs it`);
  return stdout;
}

/** A process of an event. */
interface Named {
  command: string;
  container?: { id: string; name?: string };
}

Deno.test("Docker builds and runs under the rules of its VM", async (t) => {
  const world = await TestUpstreams.make(
    ["ok.test"],
    (request) => new Response(`hello ${new URL(request.url).pathname}\n`),
  );
  const sbx = await Sbx.make({ spare: false });
  const shell = async (command: string) => {
    const { code, stdout, stderr } = await sbx.cli("exec", "box", "--", "sh", "-c", command);
    assertEquals(code, 0, `${command}\n${stdout}\n${stderr}`);
    return stdout;
  };
  try {
    await Deno.mkdir(join(sbx.home, "profiles/engines"), { recursive: true });
    await Deno.copyFile(
      fromRoot("tests/docker/engines.toml"),
      join(sbx.home, "profiles/engines/profile.toml"),
    );
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });
    // QEMU before 8.1 reads an instruction byte by byte while another emulated processor replaces it, as a
    // JVM does with its code: one of 17 JVMs on two processors died of it (docs/guides/hosts.md).
    await sbx.ok("create", "box", "--profile", "engines", "--cpus", "1");

    await t.step(
      "a build reaches what the rules allow, by variables and by the image's own bundle",
      async () => {
        await shell(MAKE_ROOT);
        assertEquals(world.received.map(({ url }) => new URL(url).pathname), ["/build", "/bare"]);
      },
    );

    await t.step("the image has neither the host's certificate nor a variable of sbx", async () => {
      const certificate = await shell(
        "docker create --name unborn img sh >/dev/null; docker cp -q unborn:/etc/ssl/certs/ca-certificates.crt -",
      );
      assertStringIncludes(certificate, "BEGIN CERTIFICATE");
      assertEquals(certificate.includes((await shell("sed -n 2p /etc/sbx/ca.pem")).trim()), false);
      assertEquals(
        (await shell("docker image inspect img --format '{{json .Config.Env}}'")).trim(),
        '["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]',
      );
    });

    await t.step(
      "containers of a compose file reach each other, and the world through the rules",
      async () => {
        await sbx.fetch("/vms/box/files/content?path=compose.yaml", { method: "POST", body: COMPOSE });
        await shell("cd /workspace && docker compose up -d 2>&1 && docker wait workspace-client-1");
        const logs = await shell("docker logs workspace-client-1 2>&1");
        assert(/^\d{3}\nhello \/run\n403$/.test(logs.trim()), logs);
        assertEquals(world.received.some(({ url }) => url.endsWith("/refused")), false);
      },
    );

    await t.step("the refused request is explained, with the program in the container", async () => {
      const { events } = JSON.parse(await sbx.ok("events", "box", "--family", "http", "--denied", "--json"));
      const [{ common, http }] = events;
      assertEquals([common.process.command, http.request.path], ["curl", "/refused"]);
      const { id, ...container } = common.process.container;
      assertEquals(container, { name: "workspace-client-1", image: "img" });
      assertEquals((await shell("docker inspect --format '{{.Id}}' workspace-client-1")).trim(), id);
      const why = await sbx.ok("why", common.event_id);
      for (const text of ["not this one", "workspace-client-1 of img"]) assertStringIncludes(why, text);
      assertStringIncludes(await sbx.ok("net", "box"), "curl in workspace-client-1");
    });

    await t.step("programs and steps of builds have their containers too", async () => {
      const ofFamily = async (family: string): Promise<Named[]> =>
        JSON.parse(await sbx.ok("events", "box", "--family", family, "--json")).events
          .flatMap(({ common }: { common: { process?: Named } }) => common.process ?? []);
      const [http, programs] = await Promise.all(["http", "process"].map(ofFamily));
      const commands = programs.flatMap(({ command, container }) =>
        container?.name === "workspace-client-1" ? command : []
      );
      assert(commands.some((command) => command.includes("curl")), JSON.stringify(programs));
      // Steps of BuildKit, which gives no names.
      assert(http.some(({ container }) => container && !container.name), JSON.stringify(http));
      assert(programs.some(({ command, container }) => command.startsWith("docker ") && !container));
    });

    await t.step("a published port is reached from the host", async () => {
      const { host_port } = JSON.parse(await sbx.ok("port", "box", "8090", "--json"));
      const answer = await fetch(`http://127.0.0.1:${host_port}/certs/ca-certificates.crt`);
      assertStringIncludes(await answer.text(), "BEGIN CERTIFICATE");
    });

    await t.step("podman builds and runs under the same rules, with the CA and names", async () => {
      const before = world.received.length;
      await shell(PODMAN_BUILD);
      const logs = await shell(PODMAN_RUN);
      assert(/^\d{3}\nhello \/podman-run\n403$/.test(logs.trim()), logs);
      assertEquals(world.received.slice(before).map(({ url }) => new URL(url).pathname), [
        "/podman-build",
        "/podman-run",
      ]);
      const id = (await shell("podman inspect --format '{{.Id}}' pod-client")).trim();
      const { events } = JSON.parse(await sbx.ok("events", "box", "--family", "http", "--json"));
      const asked = events.find(({ http }: { http: { request: { path: string } } }) =>
        http.request.path === "/podman-run"
      );
      assertEquals(asked.common.process.container, { id, name: "pod-client", image: "localhost/img:latest" });
      const line = (await shell("sed -n 2p /etc/sbx/ca.pem")).trim();
      const bundle = "etc/ssl/certs/ca-certificates.crt";
      assertStringIncludes(await shell(`podman run --rm img cat /${bundle}`), line);
      const image = await shell(
        `at=$(podman image mount img) && cat "$at/${bundle}" && find "$at" -name '*sbx*' && podman image unmount img`,
      );
      assertStringIncludes(image, "BEGIN CERTIFICATE");
      for (const trace of [line, "sbx-"]) assertEquals(image.includes(trace), false, "no layer has the CA");
    });

    await t.step("npm's testcontainers starts, reaches and removes a container", async () => {
      await sbx.fetch("/vms/box/files/content?path=testcontainers.tar.gz", {
        method: "POST",
        body: await packed(fromRoot(".deno/docker"), "node_modules"),
      });
      await sbx.fetch("/vms/box/files/content?path=run.mjs", { method: "POST", body: TESTCONTAINERS });
      const output = await shell(
        // Its reaper is an image of Docker's registry.
        "mkdir -p /root/tc && cd /root/tc && tar -xzf /workspace/testcontainers.tar.gz && cp /workspace/run.mjs . && " +
          "TESTCONTAINERS_RYUK_DISABLED=true node run.mjs 2>&1",
      );
      assertEquals(output.trim(), "200 hello /testcontainers");
      assertEquals(await shell("docker ps -aq --filter label=org.testcontainers=true"), "");
    });

    await t.step("a JDK of Debian trusts the CA without a word", async () => {
      await sbx.fetch("/vms/box/files/content?path=Get.java", { method: "POST", body: JAVA });
      assertEquals(await shell("java /workspace/Get.java https://ok.test/java"), "hello /java\n");
    });

    await t.step("IPv6 and macvlan lead to the rules or nowhere, and are recorded", async () => {
      assertEquals(await shell(OTHER_NETWORKS), "403\nno UDP\nno TCP\nno UDP\n");
      assertEquals(world.received.filter(({ url }) => /six|macvlan/.test(url)), []);
      await eventually("each refused packet is on record", async () => {
        const { requests } = JSON.parse(await sbx.ok("net", "box", "--denied", "--json"));
        const urls = requests.map(({ http }: { http?: { request: { url: string } } }) => http?.request.url);
        return REFUSED_PACKETS.every((url) => urls.includes(url));
      });
    });

    await t.step(
      "privileged, on the guest's network, without its rules: nothing gets out unseen",
      async () => {
        const attempts = [
          "docker run --rm --privileged --network host img env -i /usr/bin/curl -m 5 -sS -o /dev/null -w '%{http_code}' https://ok.test/refused",
          "docker run --rm --privileged --network host -v /usr/lib/sbx:/usr/lib/sbx img sh -c '/usr/lib/sbx/bin/nft flush ruleset; /usr/bin/curl -m 5 -sS -k https://ok.test/flushed || echo none'",
        ];
        assertEquals(await shell(attempts[0]), "403");
        assertStringIncludes(await shell(attempts[1]), "none");
        assertEquals(world.received.filter(({ url }) => /refused|flushed/.test(url)), []);
      },
    );

    await t.step("images and containers are there after a stop and a start", async () => {
      await sbx.ok("stop", "box");
      await sbx.ok("start", "box");
      assertStringIncludes(
        await shell("docker image ls -q img; docker start workspace-web-1; docker ps"),
        "workspace-web-1",
      );
    });
  } finally {
    await sbx.dispose();
    await world.close();
  }
});
