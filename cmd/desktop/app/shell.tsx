/** Frame of every page: navigation, notices, and the page of the address. */
import type { ComponentType } from "preact";
import { AgentsPage } from "../page/agents/page.tsx";
import { CostsPage } from "../page/costs/page.tsx";
import { CredentialsPage } from "../page/credentials/page.tsx";
import { DetectionsPage } from "../page/detections/page.tsx";
import { FindingsPage } from "../page/findings/page.tsx";
import { ImagesPage } from "../page/images/page.tsx";
import { AlwaysEditor } from "../page/inbox/always.tsx";
import { InboxPage } from "../page/inbox/page.tsx";
import { McpPage } from "../page/mcp/page.tsx";
import { OverviewPage } from "../page/overview/page.tsx";
import { RulesPage } from "../page/rules/page.tsx";
import { SearchPage } from "../page/search/page.tsx";
import { SessionsPage } from "../page/sessions/page.tsx";
import { SettingsPage } from "../page/settings/page.tsx";
import { StatusPage } from "../page/status/page.tsx";
import { SessionPage, VmPage } from "../page/vm/page.tsx";
import { CommandLine, Notice } from "../part/common.tsx";
import { connection } from "../store/store.ts";
import { text } from "../text/en.ts";
import { AskBar } from "./ask_bar.tsx";
import { openPalette, Palette } from "./palette/palette.tsx";
import { route } from "./route.ts";
import { MorePage, Navigation } from "./sidebar.tsx";

const PAGES = {
  overview: OverviewPage,
  findings: FindingsPage,
  search: SearchPage,
  sessions: SessionsPage,
  inbox: InboxPage,
  rules: RulesPage,
  detections: DetectionsPage,
  mcp: McpPage,
  agents: AgentsPage,
  images: ImagesPage,
  costs: CostsPage,
  credentials: CredentialsPage,
  settings: SettingsPage,
  status: StatusPage,
  vm: VmPage,
  session: SessionPage,
  more: MorePage,
} satisfies Record<string, ComponentType>;
type PageName = keyof typeof PAGES;
function isPage(name: string | undefined): name is PageName {
  return name !== undefined && Object.hasOwn(PAGES, name);
}

/** The frame of every page. */
export function Shell() {
  if (connection.value === "signed-out") return <SignedOut />;
  const [name, subject] = route.value;
  const current = isPage(name) ? name : "overview";
  const Page = PAGES[current];
  return (
    <>
      <a class="skip" href="#main" onClick={focusMain}>{text.app.skip}</a>
      <div class="frame">
        <Navigation
          current={current}
          vm={current === "vm" ? subject : undefined}
          onSearch={openPalette}
        />
        <div class="page">
          <Connection />
          {current !== "inbox" && <AskBar />}
          <main id="main" tabIndex={-1}>
            <Page />
          </main>
        </div>
      </div>
      <Notice />
      <Palette />
      <AlwaysEditor />
    </>
  );
}

function Connection() {
  const state = connection.value;
  return (
    <div role="alert" class="connection">
      {state === "offline" && text.connection.offline}
      {state === "connecting" && text.connection.connecting}
    </div>
  );
}

/** The fragment of the address is the page, so a link cannot move the focus. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Page of a browser without a session. */
function SignedOut() {
  return (
    <>
      <main class="alone">
        <h1>{text.signIn.title}</h1>
        <p>{text.signIn.how}</p>
        <CommandLine command={text.signIn.command} />
      </main>
      <Notice />
    </>
  );
}
