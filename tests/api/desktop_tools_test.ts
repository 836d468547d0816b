/** MCP servers on the desktop page: their state and tools, and the way to a new one. */
import { assertEquals } from "@std/assert";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const COUNTS = { resource_count: 0, prompt_count: 0 };

Deno.test("MCP servers on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    serve: {
      McpListServers: (_, caller) =>
        caller.reply({
          t: "McpServers",
          servers: [
            {
              ...COUNTS,
              name: "local",
              url: "",
              enabled: true,
              source: "builtin",
              connected: true,
              tool_count: 1,
            },
            {
              ...COUNTS,
              name: "tickets",
              url: "https://mcp.example.com/mcp",
              enabled: true,
              source: "profile",
              connected: false,
              tool_count: 0,
              last_error: "the server needs a <b>login</b> (HTTP 401)",
            },
          ],
        }),
      McpListTools: (_, caller) =>
        caller.reply({
          t: "McpTools",
          tools: [{
            namespaced_name: "local__echo",
            original_name: "echo",
            description: "says a text again",
            input_schema: {},
            server_name: "local",
            annotations: {},
            pin_hash: "0123456789abcdef".repeat(4),
            pin_changed: false,
          }],
        }),
    },
  });
  const { desktop } = home;
  const { page } = desktop;
  await desktop.open("mcp?profile=code");

  await t.step("a server shows its state, its failure and its tools", async () => {
    await page.getByRole("row", { name: /^local sbx connected 1/ }).waitFor();
    const tickets = page.getByRole("row", {
      name: /^tickets https:\/\/mcp\.example\.com\/mcp Profile not connected/,
    });
    await tickets.getByText("the server needs a <b>login</b> (HTTP 401)").waitFor();
    assertEquals(await page.getByRole("button", { name: "Log in to local" }).count(), 0);
    await page.getByRole("button", { name: "Tools of local" }).click();
    await page.getByRole("row", { name: /^echo says a text again 0123456789ab/ }).waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "tools");
  });

  await t.step("a login that cannot begin says why, and asks nothing of the person", async () => {
    await page.getByRole("button", { name: "Log in to tickets" }).click();
    await page.locator(".notice .error").waitFor();
    assertEquals(await page.getByRole("dialog").count(), 0);
    await page.locator(".notice").getByRole("button", { name: "Dismiss" }).click();
  });

  await t.step("the way to a new server is on the page", async () => {
    await page.getByText("Add a server").click();
    await page.getByText("sbx mcp servers -p code").waitFor();
    assertEquals(await desktop.violations(), []);
  });

  assertEquals(desktop.problems, []);
});
