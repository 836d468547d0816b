/** Keys, hosts, a task and its repository, for tests of published agents. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";

export const ANTHROPIC = {
  provider: "anthropic",
  secret: "sk-ant-api03-agentSECRETagentSECRETagentSECRET01234",
};
export const OPENAI = {
  provider: "openai",
  secret: "sk-proj-agentSECRETagentSECRETagentSECRETagentSECRET0123",
};
export const GOOGLE = { provider: "google", secret: "AIzaSyAgentSECRETagentSECRETagentSECRET1" };
export const HOSTS = ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"];
export const TASK = "The test fails. Mend the program and commit.";

async function git(dir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runChild("git", { args: ["-C", dir, ...args] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

/** A repository whose test fails. */
export async function makeRepository(dir: string): Promise<string> {
  const repository = join(dir, "calc");
  await Deno.mkdir(repository);
  await Deno.writeTextFile(join(repository, "calc.py"), "def add(a, b):\n    return a - b\n");
  await Deno.writeTextFile(join(repository, "test_calc.py"), "from calc import add\nassert add(2, 3) == 5\n");
  await Deno.writeTextFile(join(repository, ".gitignore"), "__pycache__\n");
  await git(repository, "init", "-q", "-b", "main");
  await git(repository, "config", "user.name", "Person");
  await git(repository, "config", "user.email", "person@example.com");
  await git(repository, "add", ".");
  await git(repository, "commit", "-qm", "A calculator");
  return repository;
}
