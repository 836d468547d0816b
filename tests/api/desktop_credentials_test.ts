/**
 * Credentials on the desktop page: added from the catalogue, with their uses, revoked with what that means.
 */
import { assertEquals } from "@std/assert";
import { CredentialBroker, CredentialStore, storePath } from "../../lib/credential/mod.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { logInGuest } from "../helper/guest_login.ts";
import { testProvider } from "../helper/identity_provider.ts";
import { checkViews } from "../helper/desktop_views.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
/** Of the length and form of a real one. */
const SECRET = `sk-ant-api03-${"d".repeat(93)}AA`;

Deno.test("credentials on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make();
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const row = (name: string) => page.getByRole("table", { name: "Credentials" }).getByRole("row", { name });

  await t.step("an empty page says how it begins, and lists subscriptions", async () => {
    await desktop.open("credentials");
    await page.getByText("No credential yet").waitFor();
    await page.getByRole("table", { name: "Subscriptions" }).getByRole("row").nth(1).waitFor();
    assertEquals(await page.title(), "Credentials – sbx");
    await checkViews(desktop, "credentials_empty");
  });

  await t.step("a provider is found in the catalogue by its host, by keys alone", async () => {
    await page.getByRole("button", { name: "Add a credential" }).click();
    await dialog.getByRole("list", { name: "Providers" }).getByRole("button").first().waitFor();
    await page.keyboard.type("api.anthropic");
    assertEquals(await dialog.getByRole("list").getByRole("button").count(), 1);
    await checkViews(desktop, "credentials_catalogue");
    await page.keyboard.press("Enter");
    await dialog.getByText(/api\.anthropic\.com/).waitFor();
    await dialog.getByText(/ANTHROPIC_API_KEY/).waitFor();
  });

  await t.step(
    "a missing secret and a wrong one are said at their field, and nothing of it stays",
    async () => {
      const secret = dialog.getByLabel("Secret", { exact: true });
      await dialog.getByRole("button", { name: "Add", exact: true }).click();
      await dialog.getByText("needs its secret").waitFor();
      assertEquals(await secret.getAttribute("aria-invalid"), "true");
      await secret.fill("short");
      await dialog.getByRole("button", { name: "Add", exact: true }).click();
      await dialog.locator("#secret-problem .error").filter({ hasNotText: "needs its secret" }).waitFor();
      assertEquals(await secret.inputValue(), "");
      await checkViews(desktop, "credentials_add");
      await dialog.getByLabel("Label (optional)").fill("work");
      await secret.fill(SECRET);
      await page.keyboard.press("Enter");
      await row("work").waitFor();
      const kept = await page.evaluate(
        "document.documentElement.outerHTML + location + JSON.stringify({ ...localStorage, ...sessionStorage })",
      );
      assertEquals(String(kept).includes(SECRET), false);
    },
  );

  await t.step("an identity at a cloud is added in a terminal, which has its key file", async () => {
    await page.getByRole("button", { name: "Add a credential" }).click();
    await dialog.getByRole("list", { name: "Providers" }).getByRole("button").first().waitFor();
    await page.keyboard.type("gcp");
    await page.keyboard.press("Enter");
    await dialog.getByText("sbx credentials add gcp --help").waitFor();
    assertEquals(await dialog.getByLabel("Secret", { exact: true }).count(), 0);
    await dialog.getByRole("button", { name: "Close" }).click();
  });

  await t.step("a row has provider, kind, uses and expiry; its uses have an address", async () => {
    for (const text of ["Anthropic", "API key", "never", "when revoked"]) {
      await row("work").getByText(text, { exact: true }).waitFor();
    }
    const decoy = { provider: "openai", label: "bait", decoy: true };
    assertEquals((await home.ask("POST", "/credentials/add", decoy)).status, 200);
    await page.reload();
    await row("bait").getByText("decoy").waitFor();
    await page.getByRole("button", { name: "More for work" }).click();
    await page.getByRole("menuitem", { name: "Uses" }).click();
    await page.getByText("It was never used.").waitFor();
    await page.waitForURL(/ref=[0-9a-f]{12}$/);
    await checkViews(desktop, "credentials");
    await page.getByRole("button", { name: "Close uses of work" }).click();
  });

  await t.step("the search is in the address", async () => {
    await page.getByLabel("Find a credential").fill("openai");
    await page.waitForURL(/q=openai$/);
    await row("work").waitFor({ state: "detached" });
    await page.getByLabel("Find a credential").fill("");
    await row("work").waitFor();
  });

  await t.step("a revocation says what it means, and leaves a row that can be shown", async () => {
    await page.getByRole("button", { name: "More for work" }).click();
    await page.getByRole("menuitem", { name: "Revoke" }).click();
    await dialog.getByText("This cannot be undone").waitFor();
    await dialog.getByText("The provider is not notified").waitFor();
    await checkViews(desktop, "credentials_revoke");
    await dialog.getByRole("button", { name: "Revoke" }).click();
    await row("work").waitFor({ state: "detached" });
    await page.getByRole("switch", { name: "Show 1 revoked" }).check();
    await row("work").getByText("revoked", { exact: true }).waitFor();
  });

  await t.step("a login opens the provider's page and waits; a wrong code is said", async () => {
    await page.getByRole("button", { name: /^Log in to/ }).first().click();
    const link = dialog.getByRole("link", { name: "Open the page of the provider" });
    await link.waitFor();
    assertEquals(/^https:\/\//.test(await link.getAttribute("href") ?? ""), true);
    await checkViews(desktop, "credentials_login");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
  });
  assertEquals(desktop.problems, []);
});

Deno.test("a login that an agent made in a VM is kept or left on the desktop page", options, async (t) => {
  await using provider = await testProvider("claude");
  await using home = await DesktopHome.make();
  const { desktop } = home;
  const { page } = desktop;
  const store = new CredentialStore(storePath(home.home));
  const logIn = async () => {
    const broker = await CredentialBroker.open({ store, providers: ["anthropic"], vm: home.id });
    await logInGuest(provider, broker);
    await broker.close();
  };
  const offers = page.getByRole("table", { name: "Logins made in VMs" });
  const subscription = page.getByRole("table", { name: "Subscriptions" }).getByRole("row", {
    name: "Claude",
  });
  const dialog = page.getByRole("dialog");
  const ask = () => offers.getByRole("button", { name: /^Keep the login at Claude.* of dev$/ }).click();

  await t.step("without one, the page has no word of it", async () => {
    await desktop.open("credentials");
    await subscription.getByText("not logged in").waitFor();
    assertEquals(await offers.count(), 0);
  });

  await t.step("the account and the VM are shown, and a login that is left stays the VM's", async () => {
    await logIn();
    await page.reload();
    await offers.getByText("uuid-of-alice").waitFor();
    await ask();
    await dialog.getByText("Its account is uuid-of-alice. Is that yours?").waitFor();
    await dialog.getByText("Every VM whose profile grants anthropic").waitFor();
    await checkViews(desktop, "credentials_keep");
    await dialog.getByRole("button", { name: "Leave it" }).click();
    await dialog.waitFor({ state: "detached" });
    assertEquals([await offers.getByRole("row").count(), provider.state.grants], [2, ["authorization_code"]]);
  });

  await t.step("a login that cannot be kept says why, and nothing is lost", async () => {
    provider.state.before = () => Promise.resolve(new Response("no", { status: 503 }));
    await ask();
    await dialog.getByRole("button", { name: "Keep", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    delete provider.state.before;
  });

  await t.step("a kept login is this machine's, by keys alone", async () => {
    await dialog.getByLabel("Label (optional)").focus();
    await page.keyboard.press("Enter");
    await page.getByText(/^The login at Claude.* is kept/).waitFor();
    await offers.waitFor({ state: "detached" });
    await subscription.getByText("uuid-of-alice").waitFor();
    await page.getByRole("table", { name: "Credentials" }).getByText("Subscription").waitFor();
    assertEquals(provider.state.grants.at(-1), "refresh_token");
  });

  await t.step("a second one needs a label", async () => {
    provider.state.account = "bob";
    await logIn();
    await page.reload();
    await ask();
    const label = dialog.getByLabel("Label, since you have a login there already");
    await dialog.getByRole("button", { name: "Keep", exact: true }).click();
    assertEquals(
      await label.evaluate((field: { validity: { valueMissing: boolean } }) => field.validity.valueMissing),
      true,
    );
    await label.fill("bob");
    await page.keyboard.press("Enter");
    await page.getByRole("table", { name: "Subscriptions" }).getByText("uuid-of-bob").waitFor();
  });
  assertEquals(desktop.problems, []);
});
