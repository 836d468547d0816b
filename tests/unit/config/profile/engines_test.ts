/** Engines of containers that a profile switches on. */
import { assertEquals, assertThrows } from "@std/assert";
import { parseProfile } from "../../../../lib/config/profile/profile.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";

function apt(packages: string): string[] {
  const text = `id = "p"\nname = "P"\ndescription = "p"\nrevision = "1.0.0"\n[packages]\n${packages}\n`;
  return parseProfile(parseToml(text, "profile.toml"), { id: "p", source: "user" }).packages.apt;
}

const PODMAN = ["podman", "crun", "netavark", "aardvark-dns", "iptables", "nftables"];

Deno.test("an engine is the packages of the profile's release, once each", () => {
  assertEquals(apt('apt = ["jq", "crun"]\npodman = true'), ["jq", ...new Set(["crun", ...PODMAN])]);
  assertEquals(apt('suite = "bookworm"\ndocker = true'), ["docker.io", "docker-compose", "iptables"]);
  const docker = ["docker.io", "docker-buildx", "docker-cli", "docker-compose", "iptables"];
  assertEquals(apt("docker = true\npodman = true"), [...new Set([...docker, ...PODMAN])]);
  assertEquals(apt("podman = false"), []);
  assertThrows(() => apt('podman = "yes"'), SbxError, "packages.podman");
});
