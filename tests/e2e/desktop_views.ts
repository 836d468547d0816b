/**
 * Views of one VM: its programs, requests, calls, files, ports and logs; strings of the
 * guest are text in all of them.
 */
import { assertEquals } from "@std/assert";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

export async function viewSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;

  await t.step("programs are a tree, with markup in their arguments", async () => {
    // Among the newest, which are drawn first.
    await sbx.ok("exec", "desk", "--", "sh", "-c", `: '${MARKUP}'`);
    await desktop.open("vm", "desk", "programs");
    await page.getByRole("rowheader", { name: /^sh -c .*onerror/ }).first().waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step("a request is shown with headers and bodies in both directions", async () => {
    await desktop.open("vm", "desk", "requests");
    await page.getByRole("option", { name: /asked\.example\/free/ }).first().click();
    const response = page.getByRole("region", { name: "Response" });
    await response.getByLabel("Body of the response").getByText(MARKUP).waitFor();
    await response.getByText("x-hostile").waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step("calls of models and tools are listed beside what they cost", async () => {
    const json = JSON.stringify({
      model: "claude-sonnet-4-5",
      max_tokens: 10,
      messages: [{ role: "user", content: MARKUP }],
    });
    const address = "http://api.anthropic.com/v1/messages";
    await sbx.ok(
      "exec",
      "desk",
      "--",
      "curl",
      "-s",
      "-H",
      "content-type: application/json",
      "-d",
      json,
      address,
    );
    await desktop.open("vm", "desk", "calls");
    await page.getByRole("row", { name: /^anthropic claude-sonnet-4-5 1 1,000 0 200 \$0\.0060$/ }).waitFor();
    const call = page.getByRole("listitem", { name: "anthropic claude-sonnet-4-5" }).last();
    await call.getByText("1,000 in, 200 out · $0.0060").waitFor();
    // The prompt is text, whatever it has.
    await call.getByText(MARKUP, { exact: true }).waitFor();
    await call.getByText("Request", { exact: true }).click();
    await call.getByLabel("Body of the request").getByText("onerror").waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step("a file is read from the workspace", async () => {
    await sbx.ok("exec", "desk", "--", "sh", "-c", `mkdir -p sub; echo '${MARKUP}' >sub/page.html`);
    await desktop.open("vm", "desk", "files");
    await page.getByRole("button", { name: "sub/" }).click();
    await page.getByRole("button", { name: "page.html" }).click();
    await page.getByLabel("Content of sub/page.html").getByText(MARKUP).waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step("a port is opened, leads into the VM, and is closed", async () => {
    await desktop.open("vm", "desk", "ports");
    await page.getByText("No port leads into this VM.").waitFor();
    await page.getByLabel("Port in the VM").fill("8099");
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("rowheader", { name: "8099" }).waitFor();
    const { ports } = (await sbx.api("GET", "/vms/desk/ports")).body;
    assertEquals(ports.map(({ guest_port }: { guest_port: number }) => guest_port), [8099]);
    await page.getByRole("button", { name: "Close 8099" }).click();
    await page.getByText("No port leads into this VM.").waitFor();
  });

  await t.step("logs are shown", async () => {
    await desktop.open("vm", "desk", "logs");
    await page.getByLabel(/^Log/).selectOption({ index: 0 });
    await page.locator("pre.log").waitFor();
  });
}
